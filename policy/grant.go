package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// grant is one grant entry of a policy. A nil list or map, a zero number: not
// narrowed.
type grant struct {
	hosts     []string
	paths     map[string]string
	commands  []string
	memoryMiB int
	timeout   time.Duration
}

func readGrants(v any) ([]grant, error) {
	items, err := array("grants", v)
	if err != nil {
		return nil, err
	}
	var out []grant
	for _, item := range items {
		m, err := object("a grant", item)
		if err != nil {
			return nil, err
		}
		if len(m) == 0 {
			return nil, odd("a grant is empty")
		}
		var g grant
		for k, v := range m {
			switch k {
			case "hosts":
				g.hosts, err = readHosts(v)
			case "commands":
				g.commands, err = texts("grant.commands", v)
			case "paths":
				g.paths, err = readPaths(v)
			case "memory_mib":
				var n int64
				n, err = integer("grant.memory_mib", v, 1, math.MaxInt32)
				g.memoryMiB = int(n)
			case "timeout_ns":
				var n int64
				n, err = integer("grant.timeout_ns", v, 1, math.MaxInt64)
				g.timeout = time.Duration(n)
			default:
				err = odd("%.40q of a grant is not known", k)
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// readHosts refuses what is no pattern: a rule that means to narrow must not be
// taken for one that names something else.
func readHosts(v any) ([]string, error) {
	hosts, err := texts("grant.hosts", v)
	for _, h := range hosts {
		if _, bad := plugins.ParseHostPattern(h); bad != nil && err == nil {
			err = odd("grant.hosts: %v", bad)
		}
	}
	return hosts, err
}

func readPaths(v any) (map[string]string, error) {
	m, err := object("grant.paths", v)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for p, mode := range m {
		if p == "" || mode != "ro" && mode != "rw" {
			return nil, odd("grant.paths is not guest paths with \"ro\" or \"rw\"")
		}
		out[p] = mode.(string)
	}
	return out, nil
}

// narrow intersects what the plugin may use with every grant of the policy. Entries
// are compared as those of an operator's grant are with the manifest. The result
// never goes beyond e; what a grant asks for beyond e is in notes.
func narrow(e plugins.Capabilities, grants []grant) (*batch.Grant, []batch.Reason) {
	if len(grants) == 0 {
		return nil, nil
	}
	out := &batch.Grant{}
	beyond := map[string]bool{}
	for _, g := range grants {
		if g.hosts != nil {
			out.Hosts = plugins.IntersectHosts(or(out.Hosts, e.Hosts), g.hosts)
			for _, h := range g.hosts {
				if !plugins.CoversHost(e.Hosts, h) {
					beyond["host "+h] = true
				}
			}
		}
		if g.commands != nil {
			out.Commands = both(or(out.Commands, e.Commands), g.commands)
			for _, c := range g.commands {
				if !slices.Contains(e.Commands, c) {
					beyond["command "+c] = true
				}
			}
		}
		if g.paths != nil {
			have := out.Paths
			if have == nil {
				have = e.Paths
			}
			paths := map[string]string{}
			for p, mode := range g.paths {
				switch e.Paths[p] {
				case "":
					beyond["path "+p] = true
				case "ro":
					if mode == "rw" {
						beyond["path "+p+" rw"] = true
					}
				}
				if has, ok := have[p]; ok {
					paths[p] = "ro"
					if has == "rw" && mode == "rw" {
						paths[p] = "rw"
					}
				}
			}
			out.Paths = paths
		}
		if g.memoryMiB > 0 {
			if e.MemoryMiB > 0 && g.memoryMiB > e.MemoryMiB {
				beyond[fmt.Sprintf("memory %d MiB", g.memoryMiB)] = true
			}
			out.MemoryMiB = least(least(out.MemoryMiB, e.MemoryMiB), g.memoryMiB)
		}
		if g.timeout > 0 {
			if e.Timeout > 0 && g.timeout > e.Timeout {
				beyond["timeout "+g.timeout.String()] = true
			}
			out.Timeout = least(least(out.Timeout, e.Timeout), g.timeout)
		}
	}
	if len(beyond) == 0 {
		return out, nil
	}
	var names []string
	for b := range beyond {
		names = append(names, b)
	}
	slices.Sort(names)
	return out, []batch.Reason{{
		Code:    ReasonGrantNarrowed,
		Message: clip("the policy grants more than the plugin may use, which was left out: "+strings.Join(names, ", "), maxMessageBytes),
	}}
}

func or(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}

// both keeps the entries of have that given names too. It is never nil: an empty
// list allows nothing.
func both(have, given []string) []string {
	out := []string{}
	for _, h := range have {
		if slices.Contains(given, h) {
			out = append(out, h)
		}
	}
	return out
}

// least is the smaller of two limits, where 0 is no limit.
func least[T int | time.Duration](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
