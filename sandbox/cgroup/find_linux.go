package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The controllers that are used, by the kernel's names.
const (
	Memory = "memory"
	PIDs   = "pids"
	CPU    = "cpu"
)

var controllers = []string{Memory, PIDs, CPU}

// Place is where groups are made: a folder for each controller. In version 2 they are
// all the same one.
type Place struct {
	dirs map[string]string // by controller
	v2   map[string]bool
	why  map[string]string // by controller that is not there: why
}

// Find looks for where this process may make groups: below its own, or in version 2,
// where a group with processes may have none below it, beside it. parent is the folder
// of a version 2 group to use instead, absolute; empty looks.
func Find(parent string) *Place {
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	own, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err1, err2); err != nil {
		return nowhere(err.Error())
	}
	hs := hierarchies(string(mounts), string(own))
	if parent != "" {
		hs = []hierarchy{{dir: parent, v2: true, given: true}}
	}
	return find(hs)
}

func nowhere(why string) *Place {
	p := &Place{dirs: map[string]string{}, v2: map[string]bool{}, why: map[string]string{}}
	for _, c := range controllers {
		p.why[c] = why
	}
	return p
}

// hierarchy is one tree of groups, with the folder of the group that this process is in.
type hierarchy struct {
	dir         string
	root        string // where the tree is mounted
	v2          bool
	given       bool     // by the operator: used as it is
	controllers []string // of version 1
}

// hierarchies reads /proc/self/mountinfo and /proc/self/cgroup.
func hierarchies(mountinfo, own string) []hierarchy {
	paths := map[string]string{} // by controller, "" for version 2
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			paths[c] = f[2]
		}
	}
	var hs []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		h := hierarchy{v2: g[0] == "cgroup2", root: f[4]}
		path, member := paths[""]
		if !h.v2 {
			if g[0] != "cgroup" {
				continue
			}
			member = false
			for o := range strings.SplitSeq(g[2], ",") {
				if slices.Contains(controllers, o) {
					h.controllers = append(h.controllers, o)
					path, member = paths[o]
				}
			}
		}
		if !member {
			continue
		}
		// Of a tree of which only a part is mounted, the path is still from its top.
		if below, ok := strings.CutPrefix(path, f[3]); ok && (f[3] == "/" || below == "" || below[0] == '/') {
			path = below
		} else {
			path = ""
		}
		// Seen from a cgroup namespace that this process is not in, it leads out of the tree.
		if slices.Contains(strings.Split(path, "/"), "..") {
			path = ""
		}
		h.dir = filepath.Join(f[4], path)
		hs = append(hs, h)
	}
	return hs
}

func find(hs []hierarchy) *Place {
	p := nowhere("there are no cgroups of it")
	for _, h := range hs {
		if h.v2 {
			p.useV2(h)
			continue
		}
		for _, c := range h.controllers {
			if err := unix.Access(h.dir, unix.W_OK); err != nil {
				p.why[c] = fmt.Sprintf("%s: %v", h.dir, err)
				continue
			}
			p.dirs[c] = h.dir
			delete(p.why, c)
		}
	}
	return p
}

// useV2 takes, of the own group and the one above it, the first below which groups can
// be made that have controllers.
func (p *Place) useV2(h hierarchy) {
	candidates := []string{h.dir}
	if !h.given && h.dir != h.root {
		candidates = append(candidates, filepath.Dir(h.dir))
	}
	for _, dir := range candidates {
		if err := unix.Access(dir, unix.W_OK); err != nil {
			p.note(fmt.Sprintf("%s: %v", dir, err))
			continue
		}
		// A process must be allowed to move between the two by the group above both.
		if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
			p.note(fmt.Sprintf("%s/cgroup.procs: %v", dir, err))
			continue
		}
		passOn(dir)
		any := false
		for _, c := range words(filepath.Join(dir, "cgroup.subtree_control")) {
			if _, have := p.dirs[c]; !have && slices.Contains(controllers, c) {
				p.dirs[c], p.v2[c] = dir, true
				delete(p.why, c)
				any = true
			}
		}
		if any {
			return
		}
		p.note(dir + " has no controllers to pass on")
	}
}

// note remembers why version 2 has nothing, unless another place has.
func (p *Place) note(why string) {
	for c := range p.why {
		p.why[c] = why
	}
}

// passOn lets groups below dir have the controllers that dir has. The kernel refuses
// where there are processes in dir, and then there is another place to look.
func passOn(dir string) {
	has, passed := words(filepath.Join(dir, "cgroup.controllers")), words(filepath.Join(dir, "cgroup.subtree_control"))
	for _, c := range controllers {
		if slices.Contains(has, c) && !slices.Contains(passed, c) {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
		}
	}
}

func words(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// Why says why a controller cannot be used, empty when it can.
func (p *Place) Why(controller string) string { return p.why[controller] }
