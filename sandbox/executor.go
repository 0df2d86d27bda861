package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Executor returns the batch.Executor for TargetSandbox, over the tools of the
// snapshot that catalog returns; it is asked once per call. It is a batch.Recaller.
// The Manager stays the caller's to close.
func (m *Manager) Executor(catalog func() *plugins.Snapshot) batch.Executor {
	m.mu.Lock()
	m.catalog = catalog
	m.mu.Unlock()
	return &executor{m: m, catalog: catalog}
}

type executor struct {
	m       *Manager
	catalog func() *plugins.Snapshot
}

func (x *executor) tool(id batch.ToolID) (*plugins.Tool, bool) {
	s := x.catalog()
	if s == nil {
		return nil, false
	}
	return s.Tool(id)
}

// RecoveryCapability implements batch.Executor.
func (x *executor) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability {
	t, ok := x.tool(id)
	if !ok || t.Spec.Recovery == "" {
		return batch.NonRecoverable
	}
	return t.Spec.Recovery
}

// Invoke implements batch.Executor.
func (x *executor) Invoke(ctx context.Context, call *batch.Call) (*batch.Output, error) {
	t, ok := x.tool(call.Tool)
	if !ok {
		return nil, unavailable(call, errors.New("it is not in the catalog any more"))
	}
	// The gate decided about one manifest; another one must not run in its place.
	if d := t.Descriptor().Digest; call.ToolDigest != "" && call.ToolDigest != d {
		return nil, unavailable(call, fmt.Errorf("its digest is %s now, the call was requested for %s", d, call.ToolDigest))
	}
	if t.Spec.Target != batch.TargetSandbox {
		return nil, placement(call, fmt.Errorf("its manifest places it in %q", string(t.Spec.Target)))
	}
	out, err := x.m.invoke(ctx, t, call)
	return x.m.clean(t.Plugin, call, out, err)
}

// sessionOf is the session that a call belongs to.
func sessionOf(call *batch.Call) string { return SessionOf(call.Run, call.RunBegan) }

// SessionOf is the session of a run, which is told from another one of its name, that
// was removed, by when it began. What ran in a sandbox for that one is none of its.
func SessionOf(run batch.RunID, began time.Time) string {
	if began.IsZero() {
		return string(run)
	}
	return string(run) + sessionMark + strconv.FormatInt(began.UnixNano(), 36)
}

// sessionMark is in no id of a run.
const sessionMark = "@"

// RunOf is the run of a session.
func RunOf(session string) batch.RunID {
	run, _, _ := strings.Cut(session, sessionMark)
	return batch.RunID(run)
}

// invoke finds the call a place, and runs it there.
func (m *Manager) invoke(ctx context.Context, t *plugins.Tool, call *batch.Call) (*batch.Output, error) {
	img, err := m.image(t.Plugin)
	if err != nil {
		return nil, placement(call, err)
	}
	m.code.begin(m, img)
	e, h, done, err := m.place(ctx, t, call)
	fallback := ""
	if no := (*UnavailableError)(nil); errors.As(err, &no) && m.o.Fallback != nil {
		fallback = m.lowered(no)
		m.o.Logger.Warn("a call runs in a weaker tier, as [sandbox].allow_local_fallback lets it", "operation", string(call.Operation()), "tool", string(call.Tool), "tier", m.o.Fallback.Name(), "reason", fallback)
		e, h, done, err = m.use(ctx, sessionOf(call), m.o.Fallback, fallback)
	}
	if err != nil {
		return nil, notPlaced(call, err)
	}
	defer done()
	out, err := m.dispatch(ctx, e, h, img, t, call)
	if out != nil {
		out.Tier, out.Fallback = h.tier, fallback
	}
	var failure *batch.ToolError
	if fallback != "" && errors.As(err, &failure) && failure.Kind == batch.ToolErrorExecution {
		err = &batch.ToolError{Kind: failure.Kind, Msg: fmt.Sprintf("%s; it ran in tier %s, without a boundary, as [sandbox].allow_local_fallback lets it: %s", failure.Msg, h.tier, fallback), Err: failure.Err}
	}
	return out, err
}

// maxFallback bounds the bytes of why a call fell back.
const maxFallback = 300

// lowered is the one line that results and records keep of why a call does not run in
// the configured tier. What an engine says is in it, so secrets are kept out.
func (m *Manager) lowered(no *UnavailableError) string {
	line := strings.Join(strings.Fields(m.o.Redactor.String(strings.ToValidUTF8(no.reason(), "?"))), " ")
	if len(line) > maxFallback {
		line = strings.ToValidUTF8(line[:maxFallback], "") + "…"
	}
	return line
}

// place is the Hand for a call in the configured tier, which holds what tool and
// operator demand.
func (m *Manager) place(ctx context.Context, t *plugins.Tool, call *batch.Call) (*Environment, *hand, func(), error) {
	if m.o.Tier == nil {
		var no *UnavailableError
		if err := m.o.TierError; !errors.As(err, &no) {
			return nil, nil, nil, &UnavailableError{Reason: ReasonTool, What: err.Error(), Err: err}
		}
		return nil, nil, nil, m.o.TierError
	}
	demands, err := m.demands(t)
	if err != nil {
		return nil, nil, nil, err
	}
	e, h, done, err := m.use(ctx, sessionOf(call), m.o.Tier, "")
	if err != nil {
		return nil, nil, nil, err
	}
	if err := m.meets(ctx, h, demands); err != nil {
		done()
		return nil, nil, nil, err
	}
	return e, h, done, nil
}

// demands are the operator's and the tool's together; of the network the narrower.
func (m *Manager) demands(t *plugins.Tool) (Requirements, error) {
	own, err := toolDemands(t)
	if err != nil {
		return nil, &UnavailableError{Tier: m.o.Tier.Name(), Reason: ReasonUnmet, What: fmt.Sprintf("tool %s demands what is not known: %v", t.Name, err)}
	}
	all := Requirements{}
	for _, r := range []Requirements{m.o.Require, own} {
		for p, word := range r {
			if p != PropertyNetwork || all[p] != string(NetworkNone) {
				all[p] = word
			}
		}
	}
	return all, nil
}

// meets holds a running Instance against demands.
func (m *Manager) meets(ctx context.Context, h *hand, demands Requirements) error {
	if len(demands) == 0 {
		return nil
	}
	held, err := h.measure(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &UnavailableError{Tier: h.tier, Reason: ReasonUnmet, What: err.Error(), Err: err, Transient: errors.Is(err, ErrLost)}
	}
	lines := demands.Unmet(held)
	if len(lines) == 0 {
		return nil
	}
	what := lines[0]
	for _, l := range lines[1:] {
		what += "; " + l
	}
	return &UnavailableError{
		Tier: h.tier, Reason: ReasonUnmet, What: what,
		Remedy: "run `awaken-host sandbox check` to see what this machine can enforce, choose another [sandbox].tier, or demand less in [sandbox.require] or the tool's require",
	}
}

// image is what Hands get of a plugin.
func (m *Manager) image(p *plugins.Plugin) (*image, error) {
	m.mu.Lock()
	img := m.images[p]
	m.mu.Unlock()
	if img != nil {
		return img, nil
	}
	img, err := newImage(p, m.places)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.images) >= maxImages {
		clear(m.images) // of plugins that a reload replaced, most of them
	}
	m.images[p] = img
	return img, nil
}

const maxImages = 256

// notPlaced classifies why a call has no Hand. Nothing of it crossed.
func notPlaced(call *batch.Call, err error) error {
	var no *UnavailableError
	if errors.As(err, &no) && !no.Transient {
		return placement(call, err)
	}
	return unavailable(call, err)
}

func placement(call *batch.Call, err error) error {
	return &batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: fmt.Sprintf("tool %s cannot run in a sandbox here: %v", call.Tool, err), Err: err}
}

func unavailable(call *batch.Call, err error) error {
	return &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: fmt.Sprintf("tool %s did not start: %v", call.Tool, err), Err: err}
}

func failed(call *batch.Call, format string, a ...any) error {
	return &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: fmt.Sprintf("tool %s ", call.Tool) + fmt.Sprintf(format, a...)}
}

// timeoutOf is how long the guest of a call may run.
func timeoutOf(p *plugins.Plugin, g *batch.Grant) time.Duration {
	d := p.Effective.Timeout
	if d <= 0 {
		d = plugins.DefaultLimits.Timeout
	}
	if g != nil && g.Timeout > 0 {
		d = min(d, g.Timeout)
	}
	return d
}

// outputOf is how large the output of a call may be, in bytes.
func outputOf(p *plugins.Plugin) int {
	if p.OutputMiB > 0 {
		return p.OutputMiB << 20
	}
	return plugins.DefaultLimits.OutputMiB << 20
}

// clean keeps secrets out of what a call gives back.
func (m *Manager) clean(p *plugins.Plugin, call *batch.Call, out *batch.Output, err error) (*batch.Output, error) {
	tier, fallback := "", ""
	if out != nil {
		tier, fallback = out.Tier, out.Fallback
	}
	out, err = m.o.Redactor.Result(call, out, err, outputOf(p))
	if out != nil {
		out.Tier, out.Fallback = tier, fallback
	}
	return out, err
}
