package arch

import (
	"fmt"
	"slices"
	"strings"
)

const edit = "; if the design allows it, say so in tests/arch/rules.go with a reason"

// Check reports everything in g that the rules do not allow, one line each, in order
// of packages and files.
func (r Rules) Check(g Graph) []string {
	var bad []string
	for _, pkg := range g.Packages() {
		bad = append(bad, r.checkName(pkg)...)
		room := r.room(pkg)
		if room == nil {
			bad = append(bad, fmt.Sprintf("%s: no rule speaks of this package%s", pkg, edit))
			continue
		}
		for _, imp := range g[pkg] {
			if why := r.checkImport(room, pkg, imp); why != "" {
				bad = append(bad, fmt.Sprintf("%s:%d: %s imports %s: %s", imp.File, imp.Line, pkg, imp.Path, why))
			}
		}
	}
	return bad
}

func (r Rules) checkName(pkg string) []string {
	var bad []string
	for name := range strings.SplitSeq(pkg, "/") {
		if why, found := r.BadNames[name]; found {
			bad = append(bad, fmt.Sprintf("%s: no package is called %s: %s", pkg, name, why))
		}
	}
	return bad
}

// room is the first rule that fits pkg.
func (r Rules) room(pkg string) *Room {
	for i := range r.Rooms {
		if fits(r.Rooms[i].Path, pkg) {
			return &r.Rooms[i]
		}
	}
	return nil
}

// fits reports whether pkg is what pattern says: the package itself, or with "x/*"
// any package below x.
func fits(pattern, pkg string) bool {
	if above, found := strings.CutSuffix(pattern, "/*"); found {
		return strings.HasPrefix(pkg, above+"/")
	}
	return pattern == pkg
}

func fitsAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, pkg) })
}

// checkImport returns why the import is not allowed, or "".
func (r Rules) checkImport(room *Room, pkg string, imp Import) string {
	first, _, _ := strings.Cut(imp.Path, "/")
	to, ours := strings.CutPrefix(imp.Path, Module+"/")
	switch {
	case imp.Path == "C":
		return "programs are static and need no C compiler"
	case imp.Path == Module:
		return "the top of the repository is no package"
	case ours:
		return r.checkArrow(room, pkg, to, imp.Test)
	case !strings.Contains(first, "."):
		return "" // the standard library
	case room.StdLib:
		return "it imports the standard library only: " + room.Why + edit
	}
	return r.checkSupplier(pkg, imp)
}

func (r Rules) checkArrow(room *Room, pkg, to string, test bool) string {
	if to == pkg && test {
		return "" // a test from outside its package
	}
	if isSuite(to) && !test && !isSuite(pkg) {
		return "only tests import a suite of tests"
	}
	if fitsAny(room.May, to) || test && fitsAny(room.Tests, to) {
		return ""
	}
	if strings.HasPrefix(to, pkg+"/") {
		return "a parent knows none of its children" + edit
	}
	may := "nothing of this module"
	if len(room.May) > 0 {
		may = "only " + strings.Join(room.May, ", ")
	}
	return fmt.Sprintf("it may import %s: %s%s", may, room.Why, edit)
}

// isSuite reports whether pkg is a suite that implementations are held to.
func isSuite(pkg string) bool { return strings.HasSuffix(pkg, "test") }

func (r Rules) checkSupplier(pkg string, imp Import) string {
	for _, s := range r.Suppliers {
		if imp.Path != s.Path && !strings.HasPrefix(imp.Path, strings.TrimSuffix(s.Path, "/")+"/") {
			continue
		}
		if fitsAny(s.By, pkg) || slices.Contains(s.By, "*") || imp.Test && fitsAny(s.Tests, pkg) {
			return ""
		}
		by := slices.Clone(s.By)
		for _, t := range s.Tests {
			by = append(by, "tests of "+t)
		}
		return fmt.Sprintf("it is for %s alone: %s%s", strings.Join(by, ", "), s.Why, edit)
	}
	return "no rule speaks of this module" + edit
}

// CheckLinks reports what a program must not link and does. Deps is the import path
// of everything that the package at path links, for one system.
func (r Rules) CheckLinks(path, system string, deps []string) []string {
	var bad []string
	for _, l := range r.Links {
		if l.Path != path {
			continue
		}
		for _, not := range l.Not { // the first of a module is enough to tell
			i := slices.IndexFunc(deps, func(dep string) bool { return strings.HasPrefix(dep, not) })
			if i >= 0 {
				bad = append(bad, fmt.Sprintf("%s links %s on %s: %s", path, deps[i], system, l.Why))
			}
		}
	}
	return bad
}

// CheckTop reports what may not stand at the top level.
func (r Rules) CheckTop(entries []string) []string {
	var bad []string
	for _, e := range entries {
		if _, found := r.Top[e]; !found && !strings.HasPrefix(e, ".") {
			bad = append(bad, fmt.Sprintf("%s: nothing of this name stands at the top level%s", e, edit))
		}
	}
	return bad
}
