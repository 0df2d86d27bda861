package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/awaken-agents/awaken-host/batch"
)

// runCommand runs a WASI command module: arguments, standard input and output,
// exit status. Every call has a process of its own, whatever the isolation.
func (v *invocation) runCommand(ctx context.Context, l *loaded, dispatched *bool) (*batch.Output, error) {
	files, err := commandFiles(v.call, v.guest.secrets)
	if err != nil {
		return nil, unavailable(v.call, err)
	}
	mounts, err := v.r.openMounts(mountsOf(v.plugin, v.call.Grant))
	if err != nil {
		return nil, unavailable(v.call, err)
	}
	defer mounts.close()
	v.files = mounts
	if err := v.slow(ctx, l); err != nil {
		return nil, unavailable(v.call, err)
	}
	died := false
	defer func() {
		if !died {
			l.throttle.back()
		}
	}()
	release, err := v.admit(ctx, l)
	if err != nil {
		return nil, unavailable(v.call, err)
	}
	defer release()
	reserved := v.r.reservation(l.program.module, v.limits.memory)
	if _, err := v.r.reserve(ctx, nil, reserved); err != nil {
		return nil, unavailable(v.call, err)
	}
	defer v.r.quota.give(reserved)
	gctx, cancel := v.deadline(ctx)
	defer cancel(nil)
	mounts.begin(gctx, v.refused)

	said := tail{known: v.guest.log.known}
	stdout := &cappedBuffer{most: v.limits.output, over: func() { cancel(errOutput) }}
	stderr := &lineWriter{log: &v.guest.log, level: slog.LevelInfo, source: "stderr", tail: &said}
	sleeper := nap{ctx: gctx}
	b := newBudget(v.limits.memory, false)
	config := worldOf(v.plugin, &sleeper).WithName("").WithStartFunctions().
		WithArgs(append([]string{path.Base(v.plugin.Manifest.Module.Path)}, v.spec.Args...)...).
		WithStdin(bytes.NewReader(v.input)).WithStdout(stdout).WithStderr(stderr).
		WithFSConfig(mounts.addTo(wazero.NewFSConfig().WithFSMount(files, "/awaken")))
	*dispatched = l.program.module.hasStart
	mod, err := l.program.runtime.InstantiateModule(experimental.WithMemoryAllocator(gctx, b), l.program.command, config)
	if err != nil {
		died = guestsFault(gctx)
		return v.ended(gctx, b, said.String(), err, *dispatched)
	}
	defer mod.Close(context.Background())
	if (b.guest == nil) == l.program.module.hasMem {
		return nil, unavailable(v.call, errors.New("the runtime did not ask for this instance's memory, so its limit cannot be held"))
	}
	if cause := context.Cause(gctx); cause != nil && !*dispatched {
		return v.ended(gctx, b, "", cause, false)
	}
	*dispatched = true
	_, err = mod.ExportedFunction("_start").Call(gctx)
	stderr.flush()

	var a answer
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		// wazero's own statuses mean something only when the host did end the guest.
		ours := exit.ExitCode() == sys.ExitCodeContextCanceled || exit.ExitCode() == sys.ExitCodeDeadlineExceeded
		if !ours || context.Cause(gctx) == nil {
			a.status, err = exit.ExitCode(), nil
		}
	}
	if err != nil {
		died = guestsFault(gctx)
		return v.ended(gctx, b, said.String(), err, true)
	}
	// A guest may end by itself before it notices that the host ended it.
	if cause := context.Cause(gctx); sleeper.cut || errors.Is(cause, errOutput) {
		died = guestsFault(gctx)
		return v.ended(gctx, b, "", cause, true)
	}
	_ = mod.Close(context.Background())
	b.recycle()
	a.output = stdout.buf
	if a.status != 0 {
		a.message = fmt.Sprintf("tool %s ended with exit status %d", v.call.Tool, a.status)
		if said := said.String(); said != "" {
			a.message += ": " + said
		}
	}
	return v.output(a, b), nil
}

// commandFiles is what a command finds under /awaken.
func commandFiles(call *batch.Call, secrets *callSecrets) (fs.FS, error) {
	info, err := json.Marshal(newCallInfo(call))
	if err != nil {
		return nil, fmt.Errorf("call.json: %w", err)
	}
	state := []byte("{}")
	if len(call.State) > 0 {
		if state, err = json.Marshal(call.State); err != nil {
			return nil, fmt.Errorf("state.json: %w", err)
		}
	}
	return callFS{files: memoryFS{"call.json": info, "state.json": state}, secrets: secrets, opened: new(atomic.Int64)}, nil
}

// cappedBuffer collects a standard output and calls over once when it is more
// than most bytes.
type cappedBuffer struct {
	buf  []byte
	most int
	full bool
	over func()
}

var errFull = errors.New("output limit reached")

func (c *cappedBuffer) Write(p []byte) (int, error) {
	if c.full {
		return 0, errFull
	}
	if len(p) > c.most-len(c.buf) {
		c.full = true
		c.over()
		return 0, errFull
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}
