package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Why the host ended a guest; causes of the call's context.
var (
	errTimeout = errors.New("timeout")
	errOutput  = errors.New("output limit")
)

// invocation is one call on its way through the runtime.
type invocation struct {
	r      *Runtime
	plugin *plugins.Plugin
	spec   *plugins.ToolSpec
	call   *batch.Call
	limits limits
	input  []byte
	guest  guestCall

	tablesBounded bool      // to less than the module says
	files         *mountSet // what the guest sees; nil before it is open, and when it is another call's
	denied        string    // what the guest was refused of it until then
}

// invoke runs one call of a tool of p. See batch.Executor for what it returns.
func (r *Runtime) invoke(ctx context.Context, p *plugins.Plugin, spec *plugins.ToolSpec, call *batch.Call) (out *batch.Output, err error) {
	if err := r.enterCall(); err != nil {
		return nil, unavailable(call, err)
	}
	defer r.leave()
	dispatched := false
	defer func() {
		if rec := recover(); rec != nil {
			kind := batch.ToolErrorUnavailable
			if dispatched {
				kind = batch.ToolErrorExecution
			}
			out, err = nil, &batch.ToolError{Kind: kind, Msg: fmt.Sprintf("tool %s: the Wasm runtime failed: %v", call.Tool, rec)}
		}
	}()
	l, err := r.acquire(ctx, p)
	if err != nil {
		return nil, notLoaded(call, err)
	}
	defer r.release(l)
	v := &invocation{r: r, plugin: p, spec: spec, call: call, limits: limitsOf(p, call.Grant)}
	if v.input, err = encodeInput(spec.Encoding.Input, call.Arguments); err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorInvalidArguments, Msg: fmt.Sprintf("tool %s", call.Tool), Err: err}
	}
	v.tablesBounded = l.program.module.tablesBounded
	if out := v.refuseSize(l.program.module); out != nil {
		return out, nil
	}
	v.guest = guestCall{
		call: call, log: newGuestLog(r.log, p.Manifest.ID, call), plugin: p, session: l.http, carrier: r.opts.HTTP, commands: r.opts.Commands,
		maxRequestBody: r.opts.Egress.MaxRequestBytes(),
	}
	v.guest.log.known = r.opts.Redactor
	v.guest.secrets = &callSecrets{ctx: ctx, plugin: p, redactor: r.opts.Redactor, log: r.log, attrs: v.guest.log.attrs}
	defer v.guest.log.end()
	if p.Manifest.Module.ABI == plugins.ABIWASI {
		out, err = v.runCommand(ctx, l, &dispatched)
	} else {
		out, err = v.runExport(ctx, l, &dispatched)
	}
	return v.explain(out), err
}

// explain adds to the result of a tool that failed what it was refused of its
// folders: WASI has no number for a full quota, and no text at all.
func (v *invocation) explain(out *batch.Output) *batch.Output {
	if out == nil || !out.IsError {
		return out
	}
	refusals := v.denied
	if v.files != nil {
		refusals = v.files.refusals()
	}
	if refusals != "" {
		out.Content = append(out.Content, batch.TextBlock(fmt.Sprintf("tool %s was refused in its folders: %s", v.call.Tool, refusals)))
	}
	return out
}

// refused logs what the guest was refused of its folders.
func (v *invocation) refused(guestPath, reason string) {
	v.r.log.Warn("a guest was refused a file", "plugin", v.plugin.Manifest.ID, "tool", string(v.call.Tool),
		"operation", string(v.call.Operation()), "guest_path", v.r.opts.Redactor.String(guestPath), "reason", reason)
}

func unavailable(call *batch.Call, err error) error {
	return &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: fmt.Sprintf("tool %s did not start", call.Tool), Err: err}
}

// notLoaded is unavailable, but for a module that no attempt will make run.
func notLoaded(call *batch.Call, err error) error {
	if final := (finalError{}); errors.As(err, &final) {
		return &batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: fmt.Sprintf("tool %s cannot run: %v", call.Tool, err), Err: err}
	}
	return unavailable(call, err)
}

// refuseSize answers a call that cannot fit before anything runs: Extism takes an
// input it has no room for as an empty one.
func (v *invocation) refuseSize(m *module) *batch.Output {
	if start := uint64(m.memMin) * pageBytes; start > v.limits.memory {
		return v.fail("needs %s of memory to start and may have %s (%s)", formatBytes(start), formatBytes(v.limits.memory), v.limits.memoryBy)
	}
	if v.plugin.Manifest.Module.ABI == plugins.ABIWASI {
		return nil // a command reads its input piece by piece
	}
	if need := uint64(len(v.input)); need > v.limits.memory-uint64(m.memMin)*pageBytes {
		return v.fail("got an input of %s, which does not fit into its memory limit of %s (%s)", formatBytes(need), formatBytes(v.limits.memory), v.limits.memoryBy)
	}
	return nil
}

// fail is the result of a tool that failed, in words for the model and the author.
func (v *invocation) fail(format string, a ...any) *batch.Output {
	return batch.ErrorOutput(v.call.ID, fmt.Sprintf("tool %s %s", v.call.Tool, fmt.Sprintf(format, a...)))
}

// admit waits for a free place among the running calls, first among the plugin's own:
// calls that sleep until their timeouts hold up their plugin, and not the others.
func (v *invocation) admit(ctx context.Context, l *loaded) (release func(), err error) {
	var held []chan struct{}
	release = func() {
		for _, places := range held {
			<-places
		}
	}
	for _, places := range []chan struct{}{l.places, v.r.slots} {
		select {
		case places <- struct{}{}:
			held = append(held, places)
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-v.r.base.Done():
			err = ErrClosed
		}
		release()
		return nil, err
	}
	return release, nil
}

// deadline returns the context the guest runs under; its cause says who ended it.
// What the guest asks the host for ends with it, too.
func (v *invocation) deadline(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(v.limits.timeout, func() { cancel(errTimeout) })
	stop := context.AfterFunc(v.r.base, func() { cancel(ErrClosed) })
	v.guest.secrets.ctx, v.guest.log.ctx = ctx, ctx
	return ctx, func(cause error) {
		timer.Stop()
		stop()
		cancel(cause)
	}
}

// slow waits until another instance of the plugin may be made.
func (v *invocation) slow(ctx context.Context, l *loaded) error {
	return l.throttle.wait(ctx, func() {
		v.r.log.Warn("instances of a plugin keep dying, its calls wait until they may be replaced",
			"plugin", v.plugin.Manifest.ID, "per_second", v.r.opts.ReplacementsPerSecond)
	})
}

// runExport calls an Extism export.
func (v *invocation) runExport(ctx context.Context, l *loaded, dispatched *bool) (*batch.Output, error) {
	isolation := v.spec.Isolation
	narrowed := narrows(v.call.Grant)
	if narrowed || isolation != plugins.IsolationRun && isolation != plugins.IsolationShared {
		isolation = plugins.IsolationCall // limits and rights are the instance's
	}
	// Whatever became idle makes room for those that wait.
	defer v.r.makeRoom()
	var inst *instance
	keep := func(*instance) {}
	fresh := true
	switch isolation {
	case plugins.IsolationRun:
		slot, err := l.pool.takeRun(ctx, v.call.Run)
		if err != nil {
			return nil, unavailable(v.call, err)
		}
		inst, slot.inst = slot.inst, nil
		if fresh = inst == nil; fresh {
			v.r.boundRunInstances()
		}
		defer func() { l.pool.giveRun(v.call.Run, slot, inst) }()
		keep = func(i *instance) { inst = i }
	case plugins.IsolationShared:
		fresh = !l.pool.hasShared()
		keep = func(i *instance) {
			if i != nil && !l.pool.giveShared(i, v.r.opts.MaxConcurrent) {
				i.discard()
			}
		}
	}
	paid := false
	if fresh {
		if err := v.slow(ctx, l); err != nil {
			return nil, unavailable(v.call, err)
		}
		paid = true
	}
	died := false
	defer func() {
		switch {
		case paid && !died:
			l.throttle.back()
		case died && !paid:
			l.throttle.charge()
		}
	}()
	release, err := v.admit(ctx, l)
	if err != nil {
		return nil, unavailable(v.call, err)
	}
	defer release()
	switch {
	case isolation == plugins.IsolationShared:
		inst = l.pool.takeShared()
	case isolation == plugins.IsolationCall && !narrowed && v.plugin.Warm > 0:
		inst = l.pool.takeWarm()
		defer v.r.keepWarm(l)
	}
	reserved := v.r.reservation(l.program.module, v.limits.memory)
	if inst, err = v.r.reserve(ctx, inst, reserved); err != nil {
		return nil, unavailable(v.call, err)
	}
	defer func() { v.r.quota.give(reserved) }()
	park := func(i *instance) {
		i.quota = v.r.quota
		reserved = i.park(reserved)
		keep(i)
	}

	gctx, cancel := v.deadline(ctx)
	defer cancel(nil)
	live := inst
	if live != nil {
		live.files.begin(gctx, v.refused)
		v.files = live.files
	} else {
		// With a start section, code of the guest runs while it is instantiated.
		*dispatched = l.program.module.hasStart
		mounts, err := v.r.openMounts(mountsOf(v.plugin, v.call.Grant))
		if err != nil {
			return nil, unavailable(v.call, err)
		}
		mounts.begin(gctx, v.refused)
		v.files = mounts
		live, err = newInstance(gctx, l.program, v.plugin, v.limits.memory, mounts, v.r.log)
		if err != nil {
			died = guestsFault(gctx)
			return v.ended(gctx, live.budget, "", err, *dispatched)
		}
	}
	if err := gctx.Err(); err != nil && !*dispatched {
		if isolation == plugins.IsolationCall {
			live.close()
		} else {
			v.files = nil
			park(live)
		}
		return v.ended(gctx, live.budget, "", err, false)
	}
	*dispatched = true
	keep(nil)
	a := live.call(gctx, v.spec.Export, v.input, &v.guest)
	if len(a.output) <= v.limits.output { // of a larger one only the length is looked at
		// It lies in the instance's memory, which the next call or instance gets.
		a.output = bytes.Clone(a.output)
	}
	// What became of this call, before the instance is made ready for the next.
	ending := *live.budget
	v.files, v.denied = nil, live.files.refusals()
	if isolation != plugins.IsolationCall && a.err == nil && !live.budget.kernelRefused &&
		live.calls < v.r.opts.CallsPerInstance && live.renew() {
		park(live)
	} else if a.err == nil && gctx.Err() == nil {
		live.end()
	} else {
		live.close()
	}
	if a.err != nil {
		died = guestsFault(gctx)
		return v.ended(gctx, live.budget, live.tail.String(), a.err, true)
	}
	return v.output(a, &ending), nil
}

// guestsFault reports whether a call that came to no good end did so by itself, and
// not because its caller or the host stopped it.
func guestsFault(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause == nil || errors.Is(cause, errTimeout) || errors.Is(cause, errOutput)
}

// ended says why a guest did not come to an end of its own.
func (v *invocation) ended(ctx context.Context, b *budget, stderr string, err error, dispatched bool) (*batch.Output, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return v.fail("ran longer than its timeout of %s (%s)", v.limits.timeout, v.limits.timeoutBy), nil
	case errors.Is(cause, errOutput):
		return v.fail("wrote more than %s, the limit of one output ([limits].output_mib)", formatBytes(v.limits.output)), nil
	case cause != nil && !dispatched:
		return nil, unavailable(v.call, cause)
	case cause != nil:
		if !errors.Is(cause, ErrClosed) && !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, context.Canceled) {
			cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: fmt.Sprintf("tool %s was stopped while it ran", v.call.Tool), Err: cause}
	}
	if b.refused {
		return v.fail("%s", v.outOfMemory()), nil
	}
	if v.guest.stopped != "" {
		return v.fail("%s", v.printable(v.guest.stopped)), nil
	}
	v.r.log.Debug("a guest failed", "plugin", v.plugin.Manifest.ID, "tool", string(v.call.Tool), "operation", string(v.call.Operation()), "error", v.printable(err.Error()))
	var exit *sys.ExitError
	text := ""
	switch first, _, _ := strings.Cut(err.Error(), "\n"); {
	case errors.As(err, &exit):
		text = fmt.Sprintf("ended with exit status %d", exit.ExitCode())
	case strings.Contains(first, "stack overflow"):
		text = "ran out of stack (its calls nest too deeply)"
	case strings.Contains(first, "Variable store is full"):
		text = fmt.Sprintf("outgrew the limit of its variables, %s", formatBytes(maxVarBytes))
	case !dispatched:
		text = "could not be instantiated: " + v.printable(first)
	default:
		text = "trapped: " + v.printable(first)
		if v.tablesBounded && strings.Contains(first, "unreachable") {
			// A table that may not grow says so to the guest alone, which then often traps.
			text += fmt.Sprintf(" (its tables may have %d entries together)", maxTableEntries)
		}
	}
	if stderr != "" {
		text += ": " + stderr
	}
	return v.fail("%s", text), nil
}

// printable bounds what a guest says about its failure. Secrets go first: half of one
// beside the cut would not be found any more.
func (v *invocation) printable(text string) string {
	return printable(v.r.opts.Redactor.String(text), maxErrorText)
}

func (v *invocation) outOfMemory() string {
	return fmt.Sprintf("outgrew its memory limit of %s (%s)", formatBytes(v.limits.memory), v.limits.memoryBy)
}

// output turns what an export or a command left behind into a result.
func (v *invocation) output(a answer, b *budget) *batch.Output {
	if b.kernelRefused {
		return v.fail("%s", v.outOfMemory())
	}
	if n := resultBytes(v.spec.Encoding.Output, len(a.output)); n > v.limits.output {
		return v.fail("gave an output of %s, the limit is %s ([limits].output_mib)", formatBytes(n), formatBytes(v.limits.output))
	}
	failed := a.status != 0 || a.message != ""
	if failed && len(a.output) == 0 {
		return v.failed(a, b, nil)
	}
	out, err := decodeOutput(v.spec.Encoding.Output, a.output)
	switch {
	case failed && err != nil:
		return v.failed(a, b, []batch.ContentBlock{batch.TextBlock(v.printable(string(a.output)))})
	case failed:
		return v.failed(a, b, out.Content)
	case err != nil && b.refused:
		return v.fail("%s, and then %v", v.outOfMemory(), err)
	case err != nil:
		return v.fail("gave a bad result: %v", err)
	}
	if out.IsError && len(out.Content) == 0 {
		out.Content = []batch.ContentBlock{batch.TextBlock(fmt.Sprintf("tool %s failed and did not say why", v.call.Tool))}
	}
	if out.IsError && len(out.State) > 0 {
		v.r.log.Warn("a tool that failed also asked for state changes, they were dropped", "plugin", v.plugin.Manifest.ID, "tool", string(v.call.Tool), "operation", string(v.call.Operation()))
		out.State = nil
	}
	out.CallID = v.call.ID
	return out
}

// failed is the result of a tool that says it failed: its message, or else its
// output, or else its status.
func (v *invocation) failed(a answer, b *budget, content []batch.ContentBlock) *batch.Output {
	var texts []string
	if a.message != "" {
		texts = append(texts, v.printable(a.message))
	} else if len(content) == 0 {
		texts = append(texts, fmt.Sprintf("tool %s failed with status %d", v.call.Tool, a.status))
	}
	if b.refused {
		texts = append(texts, fmt.Sprintf("tool %s %s", v.call.Tool, v.outOfMemory()))
	}
	out := &batch.Output{CallID: v.call.ID, IsError: true}
	if len(texts) > 0 {
		out.Content = append(out.Content, batch.TextBlock(strings.Join(texts, "\n")))
	}
	out.Content = append(out.Content, content...)
	return out
}
