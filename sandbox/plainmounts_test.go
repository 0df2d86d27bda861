package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMountTargetsAreNoLinks(t *testing.T) {
	source := t.TempDir()
	for _, c := range []struct {
		name, link, to, target, within string // within: target of a mount that the link is in, empty: the workspace
		refused                        bool
	}{
		{name: "nothing there", target: "/workspace/data"},
		{name: "link elsewhere", link: "other", to: "/etc", target: "/workspace/data"},
		{name: "absolute", link: "data", to: "/etc", target: "/workspace/data", refused: true},
		{name: "to the ledger", link: "data", to: "../awaken/state", target: "/workspace/data", refused: true},
		{name: "on the way", link: "data", to: "../../oldroot/tmp", target: "/workspace/data/new", refused: true},
		{name: "dangling", link: "data", to: "nowhere", target: "/workspace/data", refused: true},
		{name: "in a mount", link: "data", to: "/etc", target: "/mnt/data", within: "/mnt", refused: true},
		{name: "covered by a mount", link: "data", to: "/etc", target: "/workspace/data", within: "/mnt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := &Spec{Workspace: t.TempDir(), State: t.TempDir()}
			holder := spec.Workspace
			if c.within != "" {
				holder = t.TempDir()
				spec.Mounts = append(spec.Mounts, Mount{Source: holder, Target: c.within, Writable: true})
			}
			spec.Mounts = append(spec.Mounts, Mount{Source: source, Target: c.target})
			if c.link != "" {
				if err := os.Symlink(c.to, filepath.Join(holder, c.link)); err != nil {
					t.Fatal(err)
				}
			}
			err := spec.PlainMounts()
			if !c.refused {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.target) || !strings.Contains(err.Error(), filepath.Join(holder, c.link)) {
				t.Errorf("got %v, want it refused with both paths", err)
			}
		})
	}
}

// A source is mounted by who sees the whole machine.
func TestMountSourcesAreNoLinks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data", "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := resolveMounts(t.TempDir(), []MountSpec{{Target: "/mnt", Folder: filepath.Join(dir, "data", "in")}})
	if err != nil {
		t.Fatal(err)
	}
	spec := &Spec{Workspace: t.TempDir(), State: t.TempDir(), Mounts: mounts}
	if err := spec.PlainMounts(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "data"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := spec.PlainMounts(); err == nil || !strings.Contains(err.Error(), mounts[0].Source) {
		t.Errorf("a source that is gone: %v", err)
	}
	if err := os.Symlink("secret", filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	if err := spec.PlainMounts(); err == nil || !strings.Contains(err.Error(), mounts[0].Source) || !strings.Contains(err.Error(), "secret") {
		t.Errorf("a source that a link leads elsewhere: %v", err)
	}
}

func TestMountsInWritableOnes(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "outer", "inner")
	beside := filepath.Join(dir, "outer-2")
	for _, d := range []string{inner, beside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(inner, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		mode    string // of the outer one
		in      MountSpec
		refused bool
	}{
		{"folder", "rw", MountSpec{Target: "/in", Folder: inner}, true},
		{"writable folder", "rw", MountSpec{Target: "/in", Folder: inner, Mode: "rw"}, true},
		{"file", "rw", MountSpec{Target: "/in", File: file}, true},
		{"at its own place", "rw", MountSpec{Target: "/out/inner", Folder: inner}, true},
		{"in a read-only one", "ro", MountSpec{Target: "/in", Folder: inner}, false},
		{"the same", "rw", MountSpec{Target: "/in", Folder: filepath.Join(dir, "outer")}, false},
		{"beside", "rw", MountSpec{Target: "/in", Folder: beside}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := MountSpec{Target: "/out", Folder: filepath.Join(dir, "outer"), Mode: c.mode}
			for _, specs := range [][]MountSpec{{outer, c.in}, {c.in, outer}} {
				_, err := resolveMounts(t.TempDir(), specs)
				if (err != nil) != c.refused || c.refused && (!strings.Contains(err.Error(), c.in.Target) || !strings.Contains(err.Error(), "lies in "+outer.Folder)) {
					t.Errorf("%+v: %v", specs, err)
				}
			}
		})
	}
}

// The Manager holds every tier to it.
func TestStartNeedsPlainMounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		source := filepath.Join(dir, "source")
		if err := os.Mkdir(source, 0o700); err != nil {
			t.Fatal(err)
		}
		w := newFakeWorld(t, newFakeTier(TierDocker), func(o *Options) { o.Mounts = []MountSpec{{Target: "/mnt", Folder: source}} })
		w.mustRun("r1", 1)
		if err := errors.Join(os.Remove(source), os.Symlink("/", source)); err != nil {
			t.Fatal(err)
		}
		_, err := w.invoke("r2", 1)
		if starts, _ := w.tier.count(); starts != 1 || ReasonOf(err) != ReasonStart || !strings.Contains(err.Error(), source) {
			t.Errorf("%d starts: %v", starts, err)
		}
	})
}
