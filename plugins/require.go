package plugins

import (
	"fmt"
	"slices"
	"strings"
)

// RequirementNames lists the properties of a sandbox that a tool ([[tool]].require)
// or an operator ([sandbox.require]) may demand, in the order in which tables show
// them. Package sandbox says what each one is.
var RequirementNames = []string{"filesystem", "network", "processes", "user", "memory", "pids", "syscalls"}

// requirementWords are what may be demanded of each. Of the network, a word demands
// that no more can be reached than it says; of the others, that they are enforced.
var requirementWords = map[string][]string{
	"filesystem": {"isolated"},
	"network":    {"none", "allowlist"},
	"processes":  {"isolated"},
	"user":       {"unprivileged"},
	"memory":     {"limited"},
	"pids":       {"limited"},
	"syscalls":   {"filtered"},
}

// CheckRequirement says whether word may be demanded of a property. The error names
// what may stand there.
func CheckRequirement(property, word string) error {
	words, known := requirementWords[property]
	if !known {
		return fmt.Errorf("%q is no property of a sandbox: %s are known%s", clip(property, 80),
			strings.Join(RequirementNames, ", "), didYouMean(property, RequirementNames))
	}
	if !slices.Contains(words, word) {
		return fmt.Errorf("%s cannot be %q: write %s", property, clip(word, 80), orList(words))
	}
	return nil
}

// parseRequire reads what a tool demands of the sandbox that it runs in, nil where
// it demands nothing.
func parseRequire(s *section, sandboxed bool) map[string]string {
	demands, ok := s.rawTable("require")
	if !ok {
		return nil
	}
	if !sandboxed {
		s.fail("require", `only a tool with target = "sandbox" can demand something of its sandbox: remove it, or set the target`)
		return nil
	}
	sub := s.table("require")
	out := make(map[string]string, len(demands))
	for _, property := range sortedKeys(demands) {
		word := sub.text(property)
		if _, isText := demands[property].(string); !isText {
			continue
		}
		if err := CheckRequirement(property, word); err != nil {
			sub.fail(property, "%v", err)
		}
		out[property] = word
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
