package hand

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// places knows the folders of a boundary that calls and the host may name, and where
// they really are.
type places struct {
	known    []place // longest name first
	writable map[string]bool
	mounts   []string // targets, in order
}

type place struct{ name, real string }

func newPlaces(hello sandbox.Hello) places {
	p := places{writable: map[string]bool{sandbox.WorkspaceDir: true, sandbox.TempDir: true}}
	names := append([]string{sandbox.WorkspaceDir, sandbox.TempDir, sandbox.StateDir, sandbox.CodeDir}, slices.Collect(maps.Keys(hello.Mounts))...)
	for _, name := range names {
		name = path.Clean(name)
		real := name
		if to := hello.Places[name]; to != "" {
			real = filepath.Clean(to)
		}
		p.known = append(p.known, place{name, real})
	}
	for target, writable := range hello.Mounts {
		p.writable[path.Clean(target)] = writable
		p.mounts = append(p.mounts, path.Clean(target))
	}
	slices.Sort(p.mounts)
	slices.SortFunc(p.known, func(a, b place) int {
		return cmp.Or(cmp.Compare(len(b.name), len(a.name)), strings.Compare(a.name, b.name))
	})
	return p
}

// of returns the place that name is in or below.
func (p places) of(name string) (place, bool) {
	name = path.Clean(name)
	for _, k := range p.known {
		if within(k.name, name) {
			return k, true
		}
	}
	return place{}, false
}

// real is where name really is; a name in no place is what it is called.
func (p places) real(name string) string {
	k, known := p.of(name)
	if !known {
		return name
	}
	return filepath.Join(k.real, filepath.FromSlash(strings.TrimPrefix(path.Clean(name), k.name)))
}

// usable reports whether calls may use what is at name at all, and write it.
func (p places) usable(name string) (usable, write bool) {
	k, known := p.of(name)
	if !known || k.name == sandbox.StateDir || k.name == sandbox.CodeDir {
		return false, false
	}
	return true, p.writable[k.name]
}

// within reports whether name is dir or below it.
func within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
