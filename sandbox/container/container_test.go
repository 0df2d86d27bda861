package container

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// Puppet builds the Hand of these tests, once.
var puppet = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "awaken-puppet-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "puppet, \"hand\":1") // as hostile as a path can be
	cmd := exec.Command("go", "build", "-o", name, "./testdata/puppet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, os.Chmod(dir, 0o755)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if name, err := puppet(); err == nil {
		os.RemoveAll(filepath.Dir(name))
	}
	os.Exit(code)
}

// EachEngine runs a test on both real engines.
func eachEngine(t *testing.T, test func(t *testing.T, o Options)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) {
		d := sandboxtest.NeedDocker(t)
		test(t, Options{Engine: sandbox.TierDocker, Command: []string{d.Binary}, Args: []string{"--host", d.Host}, Image: d.Image})
	})
	t.Run("podman", func(t *testing.T) { test(t, podman(t)) })
}

func podman(t testing.TB) Options {
	t.Helper()
	p := sandboxtest.NeedPodman(t)
	return Options{Engine: sandbox.TierPodman, Command: []string{p.Binary}, Args: slices.Concat(p.Args, p.RunArgs), Image: p.Image}
}

func newTier(t testing.TB, o Options) *Tier {
	t.Helper()
	tier, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

func newSpec(t testing.TB) *sandbox.Spec {
	t.Helper()
	hand, err := puppet()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	id := fmt.Sprintf("ct-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
	s := &sandbox.Spec{
		ID: id, Hand: hand, Workspace: filepath.Join(dir, "work, \"space\":1"), State: filepath.Join(dir, "state"),
		Labels: sandbox.Labels{Host: "host-" + id, Owner: "owner-1", Environment: id, Session: "run_1.x"},
		Limits: sandbox.InstanceLimits{MemoryMiB: 64, PIDs: 32, TempMiB: 8},
	}
	for _, d := range []string{s.Workspace, s.State} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(d, handUID, handUID); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// Start starts a container that ends with the test.
func start(t testing.TB, tier *Tier, spec *sandbox.Spec) *strung {
	t.Helper()
	i, err := tier.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, i) })
	return &strung{Instance: i, t: t, lines: bufio.NewScanner(i.Channel())}
}

func stop(t testing.TB, i sandbox.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	if err := i.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Strung is a puppet and its strings.
type strung struct {
	sandbox.Instance
	t     testing.TB
	lines *bufio.Scanner
}

func (s *strung) send(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.Channel(), line); err != nil {
		s.t.Fatal(err)
	}
}

func (s *strung) pull(line string) string {
	s.t.Helper()
	s.send(line)
	if !s.lines.Scan() {
		s.t.Fatalf("%s: no answer: %v %v", line, s.lines.Err(), s.Ended(s.t.Context()))
	}
	return s.lines.Text()
}

func (s *strung) wait() error {
	s.t.Helper()
	select {
	case <-s.Done():
	case <-time.After(20 * time.Second):
		s.t.Fatal("it does not end")
	}
	return s.Ended(s.t.Context())
}

func TestContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		if err := tier.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		inside := filepath.Join(t.TempDir(), "mount,\"ed\"")
		if err := os.WriteFile(inside, []byte("seen"), 0o644); err != nil {
			t.Fatal(err)
		}
		spec.Mounts = []sandbox.Mount{{Source: inside, Target: "/data/file"}}
		spec.Env = []string{"GREETING=hello"}
		s := start(t, tier, spec)

		if got := s.pull("id"); os.Geteuid() == 0 && got != "65532:65532" {
			t.Errorf("the Hand runs as %s", got)
		}
		for line, want := range map[string]string{
			"say hi":                "hi",
			"write /workspace/a":    "ok",
			"write /awaken/state/a": "ok",
			"write /tmp/a":          "ok",
			"read /data/file":       "seen",
		} {
			if got := s.pull(line); got != want {
				t.Errorf("%s: %s, want %s", line, got, want)
			}
		}
		for _, path := range []string{"/a", "/etc/a", "/run/a", "/var/tmp/a", "/data/file", "/data/b", "/awaken/a", "/awaken/hand", "/dev/a", "/etc/resolv.conf", "/etc/hosts"} {
			if got := s.pull("write " + path); got == "ok" {
				t.Errorf("%s can be written", path)
			}
		}
		if got := s.pull("env"); !strings.Contains(got, "GREETING=hello") || strings.Contains(got, "HOME=/root") {
			t.Errorf("environment: %s", got)
		}
		status := s.pull("read /proc/self/status")
		for _, want := range []string{"CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"} {
			if !strings.Contains(status, want) {
				t.Errorf("%s is not in %s", want, status)
			}
		}
		// Whoever has process 1's user can take its descriptors, and they are the channel.
		if got := s.pull("read /proc/self/stat"); !strings.HasPrefix(got, "1 ") {
			t.Errorf("process 1 is another program than the Hand, which is %s", got)
		}
		if got := s.pull("kill"); got != "ok" {
			t.Errorf("the Hand was killed from inside: %s", got)
		}
		if got := s.pull("read /proc/net/dev"); strings.Contains(got, "eth0") || !strings.Contains(got, "lo:") {
			t.Errorf("interfaces: %s", got)
		}

		e, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Tier != o.Engine || e.Image != digestOf(o.Image) || e.ID == "" {
			t.Errorf("effective: %+v", e)
		}
		for _, p := range sandbox.PropertyNames {
			if f := e.Properties[p]; f.State != sandbox.Enforced {
				t.Errorf("%s: %+v", p, f)
			}
		}
		if l := e.Properties[sandbox.PropertyNetwork].Level; l != "none" {
			t.Errorf("network %q", l)
		}

		left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
		if err != nil || len(left) != 1 || left[0].Labels != spec.Labels || left[0].ID != e.ID || time.Since(left[0].Created) > time.Hour {
			t.Errorf("leftovers: %+v, %v", left, err)
		}
		if left, err := tier.Leftovers(t.Context(), "another"); err != nil || len(left) != 0 {
			t.Errorf("leftovers of another host: %+v, %v", left, err)
		}
		if s.Ended(t.Context()) != nil {
			t.Error("ended before its end")
		}
		pid := s.pull("child survivor-" + spec.ID)
		if pid == "" || !alive("survivor-"+spec.ID) {
			t.Errorf("child %s is not seen", pid)
		}
		stop(t, s)
		stop(t, s)
		if alive("survivor-" + spec.ID) {
			t.Error("a child that left its session survives Stop")
		}
		if left, err := tier.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 0 {
			t.Errorf("left after Stop: %+v, %v", left, err)
		}
		select {
		case <-s.Done():
		default:
			t.Error("stopped, and not done")
		}
	})
}

// Alive looks for a puppet's child among all processes of this machine.
func alive(name string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	return slices.ContainsFunc(all, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "PUPPET_NAME="+name)
	})
}

func TestEnded(t *testing.T) {
	for _, c := range []struct {
		name, line string
		reason     sandbox.Reason
		what       string
	}{
		{"exit", "exit ...", sandbox.ReasonExited, "status 3"},
		{"memory", "eat", sandbox.ReasonMemory, "limit of 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, o Options) {
				t.Parallel()
				s := start(t, newTier(t, o), newSpec(t))
				s.pull("complain last words")
				s.send(c.line)
				err := s.wait()
				if sandbox.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.what) || !strings.Contains(err.Error(), "last words") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestClientKilled(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		s := start(t, tier, spec)
		s.pull("child client-" + spec.ID)
		if err := s.Instance.(*instance).cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		err := s.wait()
		if r := sandbox.ReasonOf(err); r == "" {
			t.Errorf("%v", err)
		}
		stop(t, s)
		if alive("client-" + spec.ID) {
			t.Error("the container survives its client and Stop")
		}
	})
}

func TestRemovedByAnother(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		s := start(t, tier, spec)
		left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
		if err != nil || len(left) != 1 {
			t.Fatal(left, err)
		}
		if err := tier.Remove(t.Context(), left[0]); err != nil {
			t.Fatal(err)
		}
		if err := tier.Remove(t.Context(), left[0]); err != nil {
			t.Errorf("removing it again: %v", err)
		}
		if err := s.wait(); sandbox.ReasonOf(err) != sandbox.ReasonKilled {
			t.Errorf("%v", err)
		}
	})
}

// Whoever makes an image of a container, to look into what happened, gets the labels
// with it. What is run from that image is not the host's to remove.
func TestImageOfAContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		s := start(t, tier, spec)
		e, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		image := "awaken-test/image-of-" + spec.ID
		ask(t, tier, "commit", containerName(spec.ID), image)
		t.Cleanup(func() { ask(t, tier, "rmi", "--force", image) })
		theirs := "theirs-" + spec.ID
		ask(t, tier, "create", "--name", theirs, "--network", "none", image)
		t.Cleanup(func() { ask(t, tier, "rm", "--force", theirs) })
		if got := ask(t, tier, "ps", "--all", "--filter", "label="+sandbox.LabelHost+"="+spec.Labels.Host, "--format", "{{.Names}}"); !strings.Contains(got, theirs) {
			t.Fatalf("the image did not take the labels: %s", got)
		}
		left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
		if err != nil || len(left) != 1 || left[0].ID != e.ID {
			t.Errorf("leftovers: %+v, %v", left, err)
		}
	})
}

func TestStartFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(o *Options, s *sandbox.Spec)
		reason sandbox.Reason
		what   string
	}{
		{"the Hand ends early", func(_ *Options, s *sandbox.Spec) { s.Env = []string{"PUPPET_EXIT=.."} }, sandbox.ReasonStart, "ending early"},
		{"the Hand never says that it is ready", func(_ *Options, s *sandbox.Spec) { s.Env = []string{"PUPPET_SLOW=1"} }, sandbox.ReasonStart, "not ready in time"},
		{"no Hand", func(_ *Options, s *sandbox.Spec) { s.Hand += ".missing" }, sandbox.ReasonStart, ".missing"},
		{"no such image", func(o *Options, _ *sandbox.Spec) { o.Image = "example.test/none@sha256:" + strings.Repeat("0", 64) }, sandbox.ReasonImage, "pull example.test/none@sha256:0"},
		{"no such id", func(o *Options, _ *sandbox.Spec) { o.Image = "sha256:" + strings.Repeat("0", 64) }, sandbox.ReasonImage, "load the image"},
		{"a tag", func(o *Options, _ *sandbox.Spec) { o.Image = "busybox:latest" }, sandbox.ReasonDigest, "busybox:latest"},
		{"no image", func(o *Options, _ *sandbox.Spec) { o.Image = "" }, sandbox.ReasonDigest, "no image"},
		{"no program", func(o *Options, _ *sandbox.Spec) { o.Command = []string{"/nonexistent/engine"} }, sandbox.ReasonTool, "install"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, o Options) {
				t.Parallel()
				spec, clean := newSpec(t), newTier(t, o)
				c.break_(&o, spec)
				patience := 20 * time.Second
				if c.what == "not ready in time" {
					patience = 2 * time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				i, err := newTier(t, o).Start(ctx, spec)
				if err == nil {
					stop(t, i)
					t.Fatal("it starts")
				}
				var u *sandbox.UnavailableError
				if !errors.As(err, &u) || u.Reason != c.reason || !strings.Contains(err.Error(), c.what) {
					t.Errorf("%v", err)
				}
				if left, err := clean.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 0 {
					t.Errorf("left: %+v, %v", left, err)
				}
			})
		})
	}
}
