package namespace

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// Check makes a sandbox of the kind that Start makes, in which bubblewrap says its own
// version: what the kernel allows is found out by trying only.
func (t *Tier) Check(ctx context.Context) error {
	program, err := t.program()
	if err != nil {
		return err
	}
	program, err = filepath.Abs(program)
	if err != nil {
		return unavailable(sandbox.ReasonTool, "bubblewrap", "", err)
	}
	dir, err := os.MkdirTemp("", "awaken-check-")
	if err != nil {
		return unavailable(sandbox.ReasonStart, "no folder to try it with", "", err)
	}
	defer func() { _ = sandbox.RemoveTree(dir) }()
	spec := &sandbox.Spec{ID: "check", Hand: program, Workspace: filepath.Join(dir, "workspace"), State: filepath.Join(dir, "state"), Network: sandbox.NetworkNone}
	for _, d := range []string{spec.Workspace, spec.State} {
		err := os.Mkdir(d, 0o700)
		if uid, gid, ok := t.HandUser(); ok && err == nil {
			err = os.Chown(d, uid, gid)
		}
		if err != nil {
			return unavailable(sandbox.ReasonStart, "no folder to try it with", "", err)
		}
	}
	thread, at, strike, err := t.sources(spec)
	if err != nil {
		return unavailable(sandbox.ReasonStart, "making folders reachable", "", err)
	}
	defer strike()
	c := &command{}
	defer c.close()
	if err := t.describe(c, spec, spec.Limits.WithDefaults(), at); err != nil {
		return unavailable(sandbox.ReasonStart, "describing the sandbox", "", err)
	}
	args, err := c.line(sandbox.HandPath, "--version")
	if err != nil {
		return unavailable(sandbox.ReasonStart, "describing the sandbox", "", err)
	}
	return t.try(ctx, thread, program, args, c.files)
}

// try runs bwrap to its end.
func (t *Tier) try(ctx context.Context, thread *process.Thread, program string, args []string, files []*os.File) error {
	said := &process.Tail{}
	cmd := exec.Command(program, args...) //nolint:gosec // the operator's own bubblewrap
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.ExtraFiles = "/", []string{}, said, files
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: t.credential()}
	if err := thread.Start(cmd); err != nil {
		return unavailable(sandbox.ReasonStart, "starting "+program, "", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	stop()
	switch words := said.String(); {
	case ctx.Err() != nil:
		return unavailable(sandbox.ReasonStart, "it took too long", "", context.Cause(ctx))
	case err == nil, strings.Contains(words, "execvp"):
		// A bubblewrap that lies elsewhere with its libraries does not run inside; it
		// got as far as trying, and the Hand needs none.
		return nil
	default:
		return explain(words, sysctl)
	}
}

// credential is whom bwrap runs as, nil for whoever runs the host.
func (t *Tier) credential() *syscall.Credential {
	uid, gid, ok := t.HandUser()
	if !ok {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids of users
}
