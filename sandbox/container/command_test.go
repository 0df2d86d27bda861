package container

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

const testImage = "example.test/tools@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func runArgs(t *testing.T, o Options, f *facts, spec *sandbox.Spec) []string {
	t.Helper()
	o.Image = testImage
	args, err := newTier(t, o).run(f, spec, "mark")
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func value(args []string, name string) string {
	if at := slices.Index(args, name); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}

func TestRun(t *testing.T) {
	spec := &sandbox.Spec{ID: "e1", Hand: "/lib/hand", Workspace: "/d/w", State: "/d/s",
		Limits: sandbox.InstanceLimits{MemoryMiB: 100, CPUs: 8, PIDs: 7, TempMiB: 3, OpenFiles: 99}}
	args := runArgs(t, Options{Engine: "docker", Args: []string{"--ulimit=nofile=5:5"}}, &facts{cpus: 2, client: 28}, spec)
	for name, want := range map[string]string{
		"--name": "awaken-e1", "--pull": "never", "--cap-drop": "ALL", "--security-opt": "no-new-privileges", "--network": "none",
		"--ipc": "private", "--pids-limit": "7", "--memory": "100m", "--memory-swap": "100m", "--cpus": "2", "--shm-size": "3m",
		"--log-driver": "none", "--entrypoint": "/awaken/hand", "--ulimit": "nofile=99:99",
		"--tmpfs": "/tmp:rw,nosuid,nodev,noexec,mode=1777,size=3m",
	} {
		if got := value(args, name); got != want {
			t.Errorf("%s %s, want %s", name, got, want)
		}
	}
	if !slices.Contains(args, "--init=false") {
		t.Errorf("an init of the engine's would hold the channel: %q", args)
	}
	if end := args[len(args)-3:]; !slices.Equal(end, []string{testImage, "serve", "--ready"}) {
		t.Errorf("it ends with %q", end)
	}
	if slices.Index(args, "--ulimit=nofile=5:5") < slices.Index(args, "nofile=99:99") {
		t.Error("the operator's ulimit does not count")
	}
	if got := runArgs(t, Options{Engine: "docker", Pull: true}, &facts{}, &sandbox.Spec{Network: sandbox.NetworkHost}); value(got, "--network") != "host" || value(got, "--pull") != "missing" {
		t.Errorf("host network, or pull: %q", got)
	}
	for _, n := range []sandbox.Network{"", sandbox.NetworkNone, sandbox.NetworkAllowlist, "unheard-of"} {
		if got := value(runArgs(t, Options{Engine: "podman"}, &facts{}, &sandbox.Spec{Network: n}), "--network"); got != "none" {
			t.Errorf("network %q is %s", n, got)
		}
	}
}

func TestDifferences(t *testing.T) {
	joined := func(engine string, f facts) string {
		return strings.Join(runArgs(t, Options{Engine: engine}, &f, &sandbox.Spec{ID: "e"}), " ")
	}
	for _, c := range []struct {
		engine string
		facts  facts
		has    string
		hasNot string
	}{
		{"docker", facts{client: 20}, "bind-nonrecursive=true", "bind-recursive"},
		{"docker", facts{client: 25}, "bind-recursive=disabled", "bind-nonrecursive"},
		{"docker", facts{}, "--env http_proxy= ", "--http-proxy"},
		{"podman", facts{client: 4}, "bind-nonrecursive=true", "bind-recursive"},
		{"podman", facts{}, "--http-proxy=false", "http_proxy="},
		{"podman", facts{}, "--read-only-tmpfs=false", "keep-id"},
		{"podman", facts{}, "--image-volume=ignore", "label=disable"},
		{"podman", facts{selinux: true}, "--security-opt label=disable", "keep-id"},
	} {
		if got := joined(c.engine, c.facts); !strings.Contains(got, c.has) || strings.Contains(got, c.hasNot) {
			t.Errorf("%s %+v: wants %q and not %q: %s", c.engine, c.facts, c.has, c.hasNot, got)
		}
	}
}

func TestUser(t *testing.T) {
	for _, c := range []struct {
		engine   string
		facts    facts
		uid, gid int
		want     string
		refused  string
	}{
		{"docker", facts{}, 0, 0, "65532:65532", ""},
		{"podman", facts{}, 0, 0, "65532:65532", ""},
		{"docker", facts{}, 1000, 100, "1000:100", ""},
		{"docker", facts{rootless: true}, 1000, 100, "0:0", ""},
		{"podman", facts{rootless: true}, 1000, 100, "1000:100", ""},
		{"docker", facts{rootless: true}, 0, 0, "", "rootless"},
		{"docker", facts{remapped: true}, 0, 0, "", "userns-remap"},
		{"docker", facts{remapped: true}, 1000, 100, "", "userns-remap"},
	} {
		got, err := newTier(t, Options{Engine: c.engine}).user(&c.facts, c.uid, c.gid)
		switch {
		case c.refused != "":
			if sandbox.ReasonOf(err) != sandbox.ReasonUnsupported || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %+v of %d: %v", c.engine, c.facts, c.uid, err)
			}
		case got != c.want || err != nil:
			t.Errorf("%s %+v of %d: %s, %v", c.engine, c.facts, c.uid, got, err)
		}
	}
	if got := engines["podman"].run(&facts{rootless: true}); !slices.Contains(got, "--userns=keep-id") {
		t.Errorf("rootless podman: %q", got)
	}
}

func TestLineBreak(t *testing.T) {
	_, err := newTier(t, Options{Engine: "docker"}).run(&facts{}, &sandbox.Spec{Workspace: "/a\nb"}, "mark")
	if sandbox.ReasonOf(err) != sandbox.ReasonUnsupported {
		t.Errorf("%v", err)
	}
}

// What an engine reads from a mount's line is what was meant, whatever is in the path.
func FuzzMount(f *testing.F) {
	f.Add("/a", "/b", true)
	f.Add("/a,readonly=false", "/b\"c", false)
	f.Add("/a:/etc:rw", "/b,src=/", false)
	f.Fuzz(func(t *testing.T, source, target string, writable bool) {
		if strings.ContainsAny(source+target, "\r\n\x00") {
			return // refused by check
		}
		line := mount(sandbox.Mount{Source: source, Target: target, Writable: writable}, "flat=1")
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		want := []string{"type=bind", "src=" + source, "dst=" + target, "bind-propagation=rprivate", "flat=1"}
		if !writable {
			want = append(want, "readonly")
		}
		if err != nil || !slices.Equal(fields, want) {
			t.Errorf("%q: %q, %v", line, fields, err)
		}
	})
}
