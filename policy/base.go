package policy

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed rego/*.rego
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

// baseModules are the sources of the base policy without its tests.
func baseModules() []source {
	names, err := fs.Glob(baseFiles, "rego/*.rego")
	if err != nil {
		panic(err) // the pattern is a constant and valid
	}
	var out []source
	for _, n := range names {
		if isTest(n) {
			continue
		}
		raw, err := baseFiles.ReadFile(n)
		if err != nil {
			panic(err) // embedded files are always there
		}
		out = append(out, source{file: basePrefix + path.Base(n), name: "base/" + path.Base(n), raw: raw})
	}
	return out
}

// isTest reports whether a file holds tests, which never take part in decisions.
func isTest(name string) bool { return strings.HasSuffix(name, "_test.rego") }
