package sandbox

import (
	"fmt"
	"maps"
	"slices"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Property names something that a boundary holds.
type Property string

// The properties.
const (
	PropertyFilesystem Property = "filesystem" // only the workspace, temporary files and mounts can be written, and nothing else of the host's can be read than what was listed
	PropertyNetwork    Property = "network"    // what can be reached
	PropertyProcesses  Property = "processes"  // processes of the host cannot be seen or signalled, and none survives the Instance
	PropertyUser       Property = "user"       // not root of the host, and nothing inside can become it
	PropertyMemory     Property = "memory"     // of all processes together
	PropertyPIDs       Property = "pids"       // how many processes
	PropertySyscalls   Property = "syscalls"   // a filter refuses system calls that no tool needs
)

// PropertyNames lists all, in the order in which tables show them.
var PropertyNames = []Property{
	PropertyFilesystem, PropertyNetwork, PropertyProcesses, PropertyUser, PropertyMemory, PropertyPIDs, PropertySyscalls,
}

// State is what is known of a property.
type State string

// The states. The zero value is unknown.
const (
	Unknown     State = ""
	Enforced    State = "enforced"
	NotEnforced State = "not enforced"
)

func (s State) String() string {
	if s == Unknown {
		return "unknown"
	}
	return string(s)
}

// Finding is what is known of one property, and how.
type Finding struct {
	State  State  `json:"state"`
	Level  string `json:"level,omitempty"`  // of PropertyNetwork: the Network in force
	Detail string `json:"detail,omitempty"` // what was seen, in a few words
	Remedy string `json:"remedy,omitempty"` // what would make it enforced; empty when it is
}

// Properties are findings by property. What is not in it is unknown.
type Properties map[Property]Finding

// Merge returns what is known from both: not enforced where one says so, else
// enforced where one says so.
func (p Properties) Merge(q Properties) Properties {
	out := maps.Clone(p)
	if out == nil {
		out = Properties{}
	}
	for name, f := range q {
		have, ok := out[name]
		switch {
		case !ok || have.State == Unknown || f.State == NotEnforced && have.State != NotEnforced:
			if f.Level == "" {
				f.Level = have.Level
			}
			out[name] = f
		case have.Level == "":
			have.Level = f.Level
			out[name] = have
		}
	}
	return out
}

// Requirements are what a tool or an operator demands of a boundary, by property: a
// word that plugins.CheckRequirement accepts. Nil demands nothing.
type Requirements map[Property]string

// ParseRequirements checks what a manifest or host.toml demands. The error names the
// property and what may stand there.
func ParseRequirements(m map[string]string) (Requirements, error) {
	if len(m) == 0 {
		return nil, nil
	}
	r := make(Requirements, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := plugins.CheckRequirement(name, m[name]); err != nil {
			return nil, err
		}
		r[Property(name)] = m[name]
	}
	return r, nil
}

// Unmet lists what p does not show to be enforced, one line for each, in the order of
// PropertyNames. Unknown is unmet.
func (r Requirements) Unmet(p Properties) []string {
	var lines []string
	for _, name := range PropertyNames {
		word, demanded := r[name]
		if !demanded {
			continue
		}
		f := p[name]
		switch {
		case f.State != Enforced:
			line := fmt.Sprintf("%s = %q is demanded and %s", name, word, f.State)
			if f.Detail != "" {
				line += " (" + f.Detail + ")"
			}
			if f.Remedy != "" {
				line += ": " + f.Remedy
			}
			lines = append(lines, line)
		case name == PropertyNetwork && word == string(NetworkNone) && f.Level != string(NetworkNone):
			lines = append(lines, fmt.Sprintf("network = %q is demanded and it is %q", word, f.Level))
		}
	}
	return lines
}
