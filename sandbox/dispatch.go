package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// The Hand ends a call at its timeout. These are for a Hand that does not: how much
// later it is told to, and stopped with everything in the boundary where that does not
// help either. The first call of a plugin in an Instance has its code compiled.
const (
	overtime    = 5 * time.Second
	compileTime = time.Minute
	cancelWait  = 2 * time.Second
)

var errOvertime = errors.New("the Hand did not end it at its timeout")

// answer is how a call ended, as the channel tells it.
type answer struct {
	out *batch.Output
	err error
}

// dispatch runs a call in a Hand.
func (m *Manager) dispatch(ctx context.Context, e *Environment, h *hand, img *image, t *plugins.Tool, call *batch.Call) (*batch.Output, error) {
	if !h.carries {
		if err := m.code.wait(ctx, img); err != nil {
			return nil, unavailable(call, err)
		}
	}
	sent, err := h.know(ctx, img)
	if err != nil {
		return nil, unavailable(call, h.why(ctx, err))
	}
	r, end, err := h.desk.begin(ctx, t.Plugin, call)
	if err != nil {
		return nil, unavailable(call, err)
	}
	defer end()
	s, err := h.begin(ctx, img, t, call)
	if err != nil {
		if errors.Is(err, ErrNotSent) {
			return nil, unavailable(call, h.why(ctx, err))
		}
		return m.aftermath(ctx, e, h, r, call, err)
	}
	said := m.newHandLog(t.Plugin, call)
	defer func() { said.end(s.DroppedEvents()) }()
	s.OnEvent(said.event)
	ended := make(chan answer, 1)
	go func() { ended <- exchange(s, outputOf(t.Plugin)) }()

	patience := timeoutOf(t.Plugin, call.Grant) + overtime
	if !sent.warm.Load() {
		patience += compileTime
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	var cause error
	select {
	case a := <-ended:
		return m.conclude(ctx, e, h, sent, r, call, a)
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-late.C:
		cause = errOvertime
	}
	s.Cancel(cause)
	wait := time.NewTimer(cancelWait)
	defer wait.Stop()
	select {
	case a := <-ended:
		return m.conclude(ctx, e, h, sent, r, call, a)
	case <-wait.C:
	}
	// It does not listen: what it started ends with the boundary.
	m.o.Logger.Error("a Hand does not end a call and is stopped", "environment", e.id, "tier", h.tier, "operation", string(call.Operation()), "cause", cause)
	if ctx.Err() != nil {
		go func() { _ = h.stop(context.WithoutCancel(ctx)) }()
		return nil, failed(call, "was stopped while it ran: %v", cause)
	}
	return m.aftermath(ctx, e, h, r, call, cause)
}

// begin sends a call.
func (h *hand) begin(ctx context.Context, img *image, t *plugins.Tool, call *batch.Call) (*Stream, error) {
	body, err := json.Marshal(CallBody{Arguments: call.Arguments, State: call.State})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	// Its end is told with Cancel, so that the answer to that is heard.
	return h.ch.Ask(context.WithoutCancel(ctx), MethodCall, CallParams{
		Plugin: img.Key, Tool: t.Spec.ID, Run: call.Run, Step: call.Step, Index: call.Index, ID: call.ID,
		Name: call.Tool, Attempt: call.Attempt, ToolDigest: call.ToolDigest, Grant: call.Grant,
	}, body)
}

// exchange takes the result of a call, of at most limit bytes.
func exchange(s *Stream, limit int) answer {
	// In JSON a byte of a result takes up to six, and a binary one a third more.
	most := 6*int64(limit) + 1<<20
	raw, err := io.ReadAll(io.LimitReader(struct{ io.Reader }{s}, most+1))
	unreadable := func(err error) answer {
		return answer{err: fmt.Errorf("the Hand's result cannot be read: %w", err)}
	}
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
		s.Cancel(err)
		return unreadable(err)
	}
	if err == nil {
		err = s.Result(nil)
	}
	if err != nil {
		return answer{err: err}
	}
	out, err := DecodeOutput(raw)
	if err != nil {
		return unreadable(err)
	}
	return answer{out: out}
}

// conclude turns the end of a call into what an executor returns.
func (m *Manager) conclude(ctx context.Context, e *Environment, h *hand, sent *sentPlugin, r *running, call *batch.Call, a answer) (*batch.Output, error) {
	var remote *RemoteError
	switch {
	case a.err == nil:
		sent.warm.Store(true)
		return a.out, nil
	case errors.As(a.err, &remote):
		err := remoteFailure(call, remote.Kind, remote.Msg)
		if r.asked.Load() && err.Kind != batch.ToolErrorExecution {
			return nil, failed(call, "had begun, and its sandbox says that it had not: %s", remote.Msg)
		}
		return nil, err
	case ctx.Err() != nil:
		return nil, failed(call, "was stopped while it ran: %v", context.Cause(ctx))
	}
	return m.aftermath(ctx, e, h, r, call, a.err)
}

// remoteFailure is a failure that a Hand reports, now or in its ledger.
func remoteFailure(call *batch.Call, kind, msg string) *batch.ToolError {
	switch k := batch.ToolErrorKind(kind); k {
	case batch.ToolErrorInvalidArguments, batch.ToolErrorUnavailable, batch.ToolErrorPlacement:
		return &batch.ToolError{Kind: k, Msg: msg}
	default:
		return &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: msg}
	}
}

// why adds to a failure before the dispatch that the Instance has ended, if it has.
func (h *hand) why(ctx context.Context, err error) error {
	if !errors.Is(err, ErrLost) {
		return err
	}
	ended := h.ended(ctx)
	switch {
	case ended == nil:
		return err
	case misspoke(err): // it ended because it was not listened to any more
		return fmt.Errorf("%w; then: %w", err, ended)
	}
	return ended
}

// aftermath is what is known of a call whose channel was lost, or whose Hand did not
// end it. What is left of the boundary is ended first, so that the record is the last
// word.
func (m *Manager) aftermath(ctx context.Context, e *Environment, h *hand, r *running, call *batch.Call, cause error) (*batch.Output, error) {
	// An attempt is recorded before it begins. That there is no record proves something of
	// a Hand that ended, and nothing of one that still runs or does not keep to its part.
	proof := errors.Is(cause, ErrLost) && !misspoke(cause) && !h.carries
	cause = h.why(ctx, cause)
	if ctx.Err() != nil {
		go func() { _ = h.stop(context.WithoutCancel(ctx)) }()
		return nil, failed(call, "was stopped while it ran: %v", context.Cause(ctx))
	}
	rec, err := m.recordOf(ctx, e, h, call.Operation())
	switch {
	case rec.Done && rec.Output != nil:
		m.o.Logger.Info("a sandbox was lost after the call had ended: its record has the result", "operation", string(call.Operation()), "cause", cause)
		return rec.Output, nil
	case rec.Done:
		return nil, remoteFailure(call, string(rec.Failed), rec.Message)
	case err == nil && rec.Attempt < call.Attempt && proof && !r.asked.Load():
		return nil, unavailable(call, cause)
	case err != nil:
		m.o.Logger.Warn("the operation ledger of a sandbox does not answer", "environment", e.id, "operation", string(call.Operation()), "error", err)
	}
	return nil, failed(call, "was running when its sandbox was lost: %v", cause)
}
