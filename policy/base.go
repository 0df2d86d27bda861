package policy

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

// The base policy in rego, and the helpers for operators' policies in lib.
//
//go:embed rego/*.rego lib/*.rego
var baseFiles embed.FS

//go:embed starter/*.rego
var starterFiles embed.FS

// Starter is the policy that "awaken-host init" writes: policy.rego and its
// tests, policy_test.rego.
func Starter() fs.FS {
	sub, err := fs.Sub(starterFiles, "starter")
	if err != nil {
		panic(err) // the path is a constant and valid
	}
	return sub
}

// basePrefix is where messages say a problem of the base policy is.
const basePrefix = "awaken-host:"

// baseModules are the sources of the base policy and the helpers without their tests.
func baseModules() []source {
	var out []source
	for _, n := range slices.Concat(embedded("rego/*.rego"), embedded("lib/*.rego")) {
		if isTest(n) {
			continue
		}
		raw, err := baseFiles.ReadFile(n)
		if err != nil {
			panic(err) // embedded files are always there
		}
		name := strings.TrimPrefix(n, "rego/")
		out = append(out, source{file: basePrefix + name, name: "base/" + name, raw: raw})
	}
	return out
}

func embedded(pattern string) []string {
	names, err := fs.Glob(baseFiles, pattern)
	if err != nil {
		panic(err) // the pattern is a constant and valid
	}
	return names
}

// isTest reports whether a file holds tests, which never take part in decisions.
func isTest(name string) bool { return strings.HasSuffix(name, "_test.rego") }
