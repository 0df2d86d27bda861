package namespace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
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
			spec := &sandbox.Spec{Workspace: t.TempDir(), State: t.TempDir()}
			holder := spec.Workspace
			if c.within != "" {
				holder = t.TempDir()
				spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: holder, Target: c.within, Writable: true})
			}
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: source, Target: c.target})
			if c.link != "" {
				if err := os.Symlink(c.to, filepath.Join(holder, c.link)); err != nil {
					t.Fatal(err)
				}
			}
			err := plainTargets(spec)
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
