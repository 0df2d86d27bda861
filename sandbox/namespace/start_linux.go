package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// HandUser is the user that sandboxes have while the host runs as root.
func (t *Tier) HandUser() (uid, gid int, ok bool) {
	if _, err := newStage(); err != nil {
		return 0, 0, false
	}
	return t.o.User, t.o.User, true
}

// Start makes the sandbox and returns once the Hand runs in it.
func (t *Tier) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	if ctx.Err() != nil {
		return nil, unavailable(sandbox.ReasonStart, "it was given up", "", context.Cause(ctx))
	}
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	i := &instance{
		id: spec.ID, mark: process.Mark(sandbox.TierNamespace, &spec.Labels), users: t.users(), network: spec.Network, limits: spec.Limits.WithDefaults(), folders: t.o.Folders, writable: writable(spec),
		stderr: &process.Tail{}, done: make(chan struct{}),
	}
	if err := t.start(ctx, i, spec); err != nil {
		return nil, err
	}
	return i, nil
}

func checkSpec(spec *sandbox.Spec) error {
	if _, err := os.Stat(spec.Hand); err != nil {
		return unavailable(sandbox.ReasonTool, "the Hand is not at "+spec.Hand, "build it with: make build", err)
	}
	for _, m := range spec.Mounts {
		if m.Target == sandbox.CodeDir && !m.Writable {
			continue
		}
		if m.Target == "/" || m.Target == sandbox.HandDir || strings.HasPrefix(m.Target, sandbox.HandDir+"/") {
			return unavailable(sandbox.ReasonStart, "a mount cannot stand at "+m.Target, "choose another place for "+m.Source, nil)
		}
	}
	if err := spec.PlainMounts(); err != nil {
		return unavailable(sandbox.ReasonStart, "a mount cannot be made safely", "", err)
	}
	return nil
}

// program finds bubblewrap.
func (t *Tier) program() (string, error) {
	name := t.o.Program
	if name == "" {
		name = "bwrap"
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", unavailable(sandbox.ReasonTool, "bubblewrap is not installed",
			"install it, such as with: apt-get install bubblewrap", err)
	}
	return file, nil
}

func (t *Tier) start(ctx context.Context, i *instance, spec *sandbox.Spec) (failed error) {
	program, err := t.program()
	if err != nil {
		return err
	}
	// What is begun is undone, last things first, unless all of it works.
	var undo []func()
	defer func() {
		if failed != nil {
			for n := len(undo) - 1; n >= 0; n-- {
				undo[n]()
			}
		}
	}()
	oops := func(what string, err error) error { return unavailable(sandbox.ReasonStart, what, "", err) }

	thread, at, strike, err := t.sources(spec)
	if err != nil {
		return oops("making folders reachable", err)
	}
	defer strike()

	statusR, statusW, err := os.Pipe()
	if err != nil {
		return oops("no pipe", err)
	}
	i.status = statusR
	undo = append(undo, func() { _ = statusR.Close() })
	goR, goW, err := os.Pipe()
	if err != nil {
		_ = statusW.Close()
		return oops("no pipe", err)
	}
	// Closing it lets bwrap go on: whoever comes here without having let it go has
	// ended it before, since undo works after this.
	undo = append(undo, func() { _ = goW.Close() })
	defer func() {
		if failed == nil {
			_ = goW.Close()
		}
	}()
	errR, errW, err := os.Pipe()
	if err != nil {
		_, _, _ = statusW.Close(), goR.Close(), goW.Close()
		return oops("no pipe", err)
	}

	c := &command{}
	c.add("--json-status-fd", c.pass(statusW), "--block-fd", c.pass(goR))
	err = t.describe(c, spec, i.limits, at)
	var args []string
	if err == nil {
		args, err = c.line(sandbox.HandPath, "serve")
	}
	if err != nil {
		c.close()
		_, _ = errR.Close(), errW.Close()
		return oops("describing the sandbox", err)
	}
	cmd := exec.Command(program, args...) //nolint:gosec // the operator's own bubblewrap
	cmd.Args[0] = i.mark
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.ExtraFiles = "/", []string{}, errW, c.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: t.credential()}
	pipes, started, err := process.Connect(cmd)
	if err != nil {
		c.close()
		_, _ = errR.Close(), errW.Close()
		return oops("no pipe", err)
	}
	err = thread.Start(cmd)
	started()
	c.close()
	_ = errW.Close()
	if err != nil {
		_ = errR.Close()
		pipes.Discard()
		return oops("starting "+program, err)
	}
	i.pipes, i.cmd = pipes, cmd
	i.supervise(errR, t.log.With("environment", spec.ID))
	undo = append(undo, func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := i.Stop(clean); err != nil {
			t.log.Error("a sandbox that did not start is not all gone", "environment", spec.ID, "error", err)
		}
	})
	return t.release(ctx, i, spec, goW)
}

// sources makes everything that spec names reachable for whom bwrap runs as.
func (t *Tier) sources(spec *sandbox.Spec) (*process.Thread, func(string) string, func(), error) {
	same := func(p string) string { return p }
	s, err := newStage()
	if err != nil {
		return process.Shared(), same, func() {}, nil //nolint:nilerr // bwrap runs as we do, and reaches what we reach
	}
	paths := append([]string{spec.Hand, spec.Workspace, spec.State}, t.o.Folders...)
	for _, m := range spec.Mounts {
		paths = append(paths, m.Source)
	}
	existing := paths[:0]
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			existing = append(existing, p)
		}
	}
	staged, strike, err := s.set(existing)
	if err != nil {
		return nil, nil, nil, err
	}
	at := func(p string) string {
		if place, ok := staged[p]; ok {
			return place
		}
		return p
	}
	return s.thread, at, strike, nil
}

// describe says everything of the sandbox but what runs in it.
func (t *Tier) describe(c *command, spec *sandbox.Spec, limits sandbox.InstanceLimits, at func(string) string) error {
	c.flags(spec.Network)
	seccomp, err := c.data("seccomp", newFilter().bytes())
	if err != nil {
		return fmt.Errorf("passing the system call filter: %w", err)
	}
	c.add("--seccomp", seccomp)
	c.environment(spec.Env)
	if err := c.root(t.o.Folders, spec.Network, at); err != nil {
		return err
	}
	c.places(spec, limits, at)
	return nil
}

// release waits until bwrap has made the namespaces, puts limits on what is inside,
// lets it go on, and waits until the Hand runs.
func (t *Tier) release(ctx context.Context, i *instance, spec *sandbox.Spec, goOn *os.File) error {
	stopWaiting := context.AfterFunc(ctx, func() { _ = i.status.SetReadDeadline(time.Now()) })
	defer stopWaiting()
	var made struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(i.status).Decode(&made); err != nil {
		return i.notStarted(ctx, err)
	}
	if err := i.hold(made.Child); err != nil {
		return i.notStarted(ctx, err)
	}
	uid, gid, other := t.HandUser()
	if err := t.limit(i, &spec.Labels, userID{uid, gid, other}); err != nil {
		return unavailable(sandbox.ReasonStart, "limiting the sandbox", "", err)
	}
	if _, err := goOn.Write([]byte{1}); err != nil {
		return i.notStarted(ctx, err)
	}
	return i.settle(ctx)
}

// settle waits until the child is no bwrap any more, but the Hand: bwrap says nothing
// when it has set up everything, and mounts fail late. A Hand that is itself replaced
// by another program may never be seen under its own name.
func (i *instance) settle(ctx context.Context) error {
	setup := comm(i.cmd.Process.Pid)
	for {
		if now := comm(i.child); now != "" && setup != "" && now != setup {
			return nil
		}
		select {
		case <-i.done:
			// bwrap fails with words of its own. Without them the Hand ran, and ended sooner
			// than it could be seen: Ended tells how.
			if !strings.Contains(i.stderr.String(), "bwrap: ") {
				return nil
			}
			return i.notStarted(ctx, nil)
		case <-ctx.Done():
			return i.notStarted(ctx, nil)
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// comm is the name that a process has for the kernel: that of the file it runs. It is
// empty when there is no such process.
func comm(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return string(b)
}

// notStarted says why there is no sandbox.
func (i *instance) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return unavailable(sandbox.ReasonStart, "it took too long", "", context.Cause(ctx))
	}
	// bwrap ends by itself after an error, and its words are the better ones.
	select {
	case <-i.done:
		return explain(i.stderr.String(), sysctl)
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	if err == nil {
		err = errors.New("bubblewrap does not go on")
	}
	return unavailable(sandbox.ReasonStart, "bubblewrap made no sandbox", "", err)
}
