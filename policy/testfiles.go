package policy

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// readTests adds to the tests beside a policy those under paths that hold nothing else,
// within the same bounds as policy.
func readTests(ctx context.Context, beside []source, others []string) ([]source, error) {
	r := &reader{ctx: ctx, tests: true, seen: map[string]bool{}}
	for _, p := range others {
		if isTest(p) {
			r.file(filepath.Clean(p), "", nil)
		} else {
			r.walk(filepath.Clean(p), "", nil)
		}
	}
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	tests := slices.Clip(beside)
	for _, t := range r.out {
		if isTest(t.name) && !slices.ContainsFunc(tests, func(s source) bool { return s.file == t.file }) {
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// SplitTests parts paths into those that hold policy and those that hold tests
// only: files of tests, and folders that have nothing else.
func SplitTests(paths []string) (policy, tests []string) {
	for _, p := range paths {
		if isTest(p) || !holdsPolicy(p) {
			tests = append(tests, p)
		} else {
			policy = append(policy, p)
		}
	}
	return policy, tests
}

// holdsPolicy reports whether something under p is read as policy or data. What
// cannot be looked at counts, so that its reader says what is wrong.
func holdsPolicy(p string) bool {
	info, err := os.Stat(p)
	if err != nil || !info.IsDir() {
		return true
	}
	found, tests := false, false
	_ = filepath.WalkDir(p, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil, e.Type()&fs.ModeSymlink != 0:
			found = true
		case file != p && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case isTest(file):
			tests = true
		case !e.IsDir() && reads(file):
			found = true
		}
		if found {
			return fs.SkipAll
		}
		return nil
	})
	return found || !tests
}

// checkTests refuses what would make tests speak of another policy than the one
// that decides: rules of outcomes, and anything in the host's own package.
func checkTests(modules map[string]*ast.Module) Problems {
	var problems Problems
	for file, m := range modules {
		for _, r := range m.Rules {
			path := m.Package.Path.Extend(r.Head.Ref().GroundPrefix()).String()
			rule := slices.ContainsFunc(ruleNames, func(n string) bool { return within(path, policyPackage+"."+n) })
			if rule || within(path, gatePackage) {
				problems = append(problems, Problem{File: file, Line: r.Location.Row, Col: r.Location.Col, Message: "a file of tests adds to " +
					strings.TrimPrefix(path, "data.") + ", which decides about calls; write the rule in a file that is policy"})
			}
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	return problems
}
