package container

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// The words are those of real engines of several releases.
func TestFailed(t *testing.T) {
	for _, c := range []struct {
		engine string
		said   string
		err    error
		reason sandbox.Reason
		remedy string
	}{
		{"docker", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", nil, sandbox.ReasonEngine, "start the Docker daemon"},
		{"docker", "failed to connect to the docker API at unix:///nonexist.sock; check if the path is correct", nil, sandbox.ReasonEngine, "start the Docker daemon"},
		{"docker", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", nil, sandbox.ReasonDenied, "socket"},
		{"docker", "docker: Error response from daemon: No such image: a@sha256:00.", nil, sandbox.ReasonImage, "docker pull " + testImage},
		{"docker", "Unable to find image 'x' locally", nil, sandbox.ReasonImage, "docker pull"},
		{"podman", "Error: a@sha256:00: image not known", nil, sandbox.ReasonImage, "podman pull"},
		{"podman", "Error: inspecting object: no such image \"x\"", nil, sandbox.ReasonImage, "podman pull"},
		{"docker", "exec /awaken/hand: exec format error", nil, sandbox.ReasonUnsupported, "architecture"},
		{"podman", "Error: OCI runtime error: crun: invalid file system type on '/sys/fs/cgroup'; cgroup", nil, sandbox.ReasonStart, "--runtime=runc"},
		{"podman", "Error: OCI runtime error: runc create failed: error setting rlimit type 6: operation not permitted", nil, sandbox.ReasonStart, "--ulimit=nproc"},
		{"docker", "something new", nil, sandbox.ReasonStart, ""},
		{"docker", "", exec.ErrNotFound, sandbox.ReasonTool, "install docker"},
		{"podman", "", &fs.PathError{Op: "fork/exec", Path: "/x", Err: fs.ErrNotExist}, sandbox.ReasonTool, "install podman"},
		{"docker", "", fs.ErrPermission, sandbox.ReasonDenied, ""},
		{"docker", "", context.DeadlineExceeded, sandbox.ReasonEngine, ""},
	} {
		err := c.err
		if err == nil {
			err = errors.New("exit status 125")
		}
		u := newTier(t, Options{Engine: c.engine, Image: testImage}).failed("run", &clientError{engine: c.engine, what: "run", said: c.said, err: err})
		if u.Reason != c.reason || !strings.Contains(u.Remedy, c.remedy) || !strings.Contains(u.Error(), c.said) {
			t.Errorf("%s %q %v: %v", c.engine, c.said, c.err, u)
		}
	}
}

// A variable of the user's is named, because the engine may well be there.
func TestElsewhere(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
	u := newTier(t, Options{Engine: "docker"}).failed("info", &clientError{said: "Cannot connect to the Docker daemon", err: errors.New("exit status 1")})
	if !strings.Contains(u.Remedy, "--host=unix:///run/user/1000/docker.sock") {
		t.Errorf("%v", u)
	}
	for _, e := range environ() {
		if strings.HasPrefix(e, "DOCKER_") {
			t.Errorf("the client gets %s", e)
		}
	}
}

func TestDaemonDown(t *testing.T) {
	d := sandboxtest.NeedDocker(t)
	o := Options{Engine: sandbox.TierDocker, Command: []string{d.Binary}, Image: d.Image, Args: []string{"--host=unix://" + filepath.Join(t.TempDir(), "none.sock")}}
	tier := newTier(t, o)
	for name, err := range map[string]error{
		"Check":     tier.Check(t.Context()),
		"Start":     func() error { _, err := tier.Start(t.Context(), newSpec(t)); return err }(),
		"Leftovers": func() error { _, err := tier.Leftovers(t.Context(), "h"); return err }(),
		"Remove":    tier.Remove(t.Context(), sandbox.Leftover{ID: "x"}),
	} {
		var u *sandbox.UnavailableError
		if !errors.As(err, &u) || u.Reason != sandbox.ReasonEngine || !u.Transient || u.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A daemon that accepts and says nothing.
func TestDaemonHangs(t *testing.T) {
	d := sandboxtest.NeedDocker(t)
	socket := filepath.Join(t.TempDir(), "mute.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err = newTier(t, Options{Engine: sandbox.TierDocker, Command: []string{d.Binary}, Image: d.Image, Args: []string{"--host=unix://" + socket}}).Check(ctx)
	if sandbox.ReasonOf(err) != sandbox.ReasonEngine || time.Since(begin) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

func TestSocketDenied(t *testing.T) {
	d := sandboxtest.NeedDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody to whom the socket is closed; run the tests as root")
	}
	// The client of another user: busybox-like tools need not be there, so the shell is
	// asked to become it.
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("setpriv is missing: apt-get install util-linux")
	}
	err = newTier(t, Options{
		Engine: sandbox.TierDocker, Image: d.Image, Args: []string{"--host=" + d.Host},
		Command: []string{setpriv, "--reuid=65534", "--clear-groups", d.Binary},
	}).Check(t.Context())
	if sandbox.ReasonOf(err) != sandbox.ReasonDenied {
		t.Errorf("%v", err)
	}
}

// A container of this Environment that a dead owner left is in the way of nobody; one
// of another host, or of a living owner, is not touched.
func TestNameTaken(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, old := newTier(t, o), newSpec(t)
		start(t, tier, old)
		for _, c := range []struct {
			name   string
			labels func(l *sandbox.Labels)
			starts bool
		}{
			{"same owner", func(*sandbox.Labels) {}, false},
			{"another host", func(l *sandbox.Labels) { l.Host, l.Owner = "other", "owner-2" }, false},
			{"dead owner", func(l *sandbox.Labels) { l.Owner = "owner-2" }, true},
		} {
			spec := newSpec(t)
			spec.ID, spec.Labels = old.ID, old.Labels
			c.labels(&spec.Labels)
			i, err := tier.Start(t.Context(), spec)
			if (err == nil) != c.starts {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil {
				t.Cleanup(func() { stop(t, i) })
				continue
			}
			if c.name == "another host" {
				if left, err := tier.Leftovers(t.Context(), old.Labels.Host); err != nil || len(left) != 1 {
					t.Errorf("%s: it was removed: %v, %v", c.name, left, err)
				}
			}
		}
	})
}

// A Start whose caller goes away in the middle leaves nothing, whenever that is.
func TestStartCanceled(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		tier := newTier(t, o)
		if err := tier.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{20 * time.Millisecond, 120 * time.Millisecond} {
			t.Run(after.String(), func(t *testing.T) {
				t.Parallel()
				spec := newSpec(t)
				spec.Env = []string{"PUPPET_SLOW=1"}
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if i, err := tier.Start(ctx, spec); err == nil {
					stop(t, i)
					t.Fatal("it starts")
				}
				if left, err := tier.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 0 {
					t.Errorf("left: %+v, %v", left, err)
				}
			})
		}
	})
}
