package container

import (
	"fmt"
	"slices"
	"strings"
)

// Option is one that the operator may give in engine_args.
type option struct {
	name  string
	short string
	value bool // has one
}

// RunOptions are options of "run" that do not weaken the boundary: they choose how it
// is made, or limit more. What is not listed is refused: an option that a later
// release of an engine brings may do anything.
var runOptions = []option{
	{name: "--runtime", value: true}, // of podman it is one before the subcommand
	{name: "--platform", value: true},
	{name: "--ulimit", value: true},
	{name: "--storage-opt", value: true},
	{name: "--cgroup-parent", value: true},
	{name: "--cpuset-cpus", value: true},
	{name: "--cpuset-mems", value: true},
	{name: "--cpu-shares", value: true},
	{name: "--blkio-weight", value: true},
	{name: "--memory-reservation", value: true},
	{name: "--memory-swappiness", value: true},
	{name: "--device-read-bps", value: true},
	{name: "--device-write-bps", value: true},
	{name: "--device-read-iops", value: true},
	{name: "--device-write-iops", value: true},
	{name: "--hostname", short: "-h", value: true},
	{name: "--dns", value: true},
	{name: "--dns-search", value: true},
	{name: "--dns-option", value: true},
}

// Sort parts the operator's options into those before the subcommand and those of
// "run", each as one argument, or two where the option was written so. The error names
// the first one that is not allowed.
func (e *engine) sort(args []string) (global, run []string, err error) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		is := func(o option) bool { return o.name == name || o.short != "" && o.short == name }
		into, list := &global, e.global
		at := slices.IndexFunc(list, is)
		if at < 0 {
			into, list = &run, runOptions
			at = slices.IndexFunc(list, is)
		}
		switch {
		case !strings.HasPrefix(name, "-"):
			return nil, nil, fmt.Errorf("%q is no option: an option and its value are two entries, or one with =", args[i])
		case at < 0:
			return nil, nil, fmt.Errorf("%s is not allowed: it could weaken the boundary. Allowed are %s", name, e.allowed())
		case joined && !strings.HasPrefix(name, "--"):
			return nil, nil, fmt.Errorf("%s: write %s", args[i], list[at].name)
		case !list[at].value && joined, list[at].value && joined && strings.HasSuffix(args[i], "="):
			return nil, nil, fmt.Errorf("%s: this value is not understood", args[i])
		}
		*into = append(*into, args[i])
		if list[at].value && !joined {
			if i++; i == len(args) {
				return nil, nil, fmt.Errorf("%s needs a value", name)
			}
			*into = append(*into, args[i])
		}
	}
	return global, run, nil
}

func (e *engine) allowed() string {
	var names []string
	for _, o := range slices.Concat(e.global, runOptions) {
		if !slices.Contains(names, o.name) {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Has says whether one of the operator's options is this one.
func has(args []string, name string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == name || strings.HasPrefix(a, name+"=") })
}
