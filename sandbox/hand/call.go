package hand

import (
	"context"
	"errors"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// maxCallBytes bounds the arguments and the state of a call, as JSON.
const maxCallBytes = 256 << 20

// running is an operation that is being worked on. Whoever asks for it again waits
// for its result.
type running struct {
	done   chan struct{} // closed when record is set
	record sandbox.LedgerRecord
}

// call runs one call, or returns what it came to before.
func (h *hand) call(ctx context.Context, s *sandbox.Stream) error {
	var p sandbox.CallParams
	if err := s.Params(&p); err != nil {
		return unavailable("the parameters of a call: %v", err)
	}
	var body sandbox.CallBody
	if err := sandbox.ReadJSON(s, maxCallBytes, &body); err != nil {
		return unavailable("the body of a call: %v", err)
	}
	op := p.Operation()
	if p.Attempt < 1 {
		return unavailable("operation %s has attempt %d, the first is 1", op, p.Attempt)
	}
	h.mu.Lock()
	r := h.running[op]
	mine := r == nil
	if mine {
		r = &running{done: make(chan struct{})}
		h.running[op] = r
	}
	h.mu.Unlock()
	if !mine {
		select {
		case <-r.done:
			return h.answer(s, &p, r.record)
		case <-ctx.Done():
			return &sandbox.RemoteError{Kind: string(batch.ToolErrorExecution), Msg: fmt.Sprintf("operation %s runs already, and was not waited for to its end", op)}
		}
	}
	defer func() {
		h.mu.Lock()
		delete(h.running, op)
		h.mu.Unlock()
		close(r.done)
	}()
	r.record = sandbox.LedgerRecord{Operation: op, Attempt: p.Attempt, Done: true, Failed: batch.ToolErrorExecution, Message: "the Hand failed"}
	r.record = h.run(ctx, s, &p, &body)
	err := h.answer(s, &p, r.record)
	h.keep(&p)
	return err
}

// keep puts the record of a call on disk, while the host has its answer already: it
// outlives this process without, and now the machine too. What may be repeated without
// harm needs no such record.
func (h *hand) keep(p *sandbox.CallParams) {
	if _, exec, err := h.executor(p.Plugin); err == nil && exec.RecoveryCapability(p.Name) == batch.ReplaySafe {
		return
	}
	if err := h.ledger.Sync(); err != nil {
		h.o.Logger.Error("what an operation came to is not on disk", "operation", string(p.Operation()), "error", err)
	}
}

// run is the one who works on an operation.
func (h *hand) run(ctx context.Context, s *sandbox.Stream, p *sandbox.CallParams, body *sandbox.CallBody) sandbox.LedgerRecord {
	op := p.Operation()
	failed := func(kind batch.ToolErrorKind, format string, a ...any) sandbox.LedgerRecord {
		return sandbox.LedgerRecord{Operation: op, Attempt: p.Attempt, Done: true, Failed: kind, Message: fmt.Sprintf(format, a...)}
	}
	before, err := h.ledger.Lookup(op)
	switch {
	case errors.Is(err, sandbox.ErrLedgerDamaged) && p.Attempt == 1:
		// The host dispatches a first attempt once.
		h.o.Logger.Warn("an operation is not in a damaged ledger", "operation", string(op), "error", err)
	case err != nil:
		return failed(batch.ToolErrorExecution, "whether operation %s ran before is not known: %v", op, err)
	case before.Done && before.Failed == batch.ToolErrorUnavailable:
		// It was not begun, so it may be now.
	case before.Done && (before.Output != nil || before.Attempt >= p.Attempt):
		return before
	case !before.Done && before.Attempt >= p.Attempt:
		return failed(batch.ToolErrorExecution, "attempt %d of operation %s was begun before and its end is not known: it is not run again", before.Attempt, op)
	}
	i, exec, err := h.executor(p.Plugin)
	if err != nil {
		return failed(batch.ToolErrorUnavailable, "%v", err)
	}
	if name := batch.ToolID(i.Tools[p.Tool]); name != p.Name {
		return failed(batch.ToolErrorUnavailable, "tool %q of plugin %s is %q here, and the call names %q", p.Tool, i.Manifest.ID, name, p.Name)
	}
	// Not synced: that it began outlives every process, and after a crash of the machine
	// the host, which synced that it dispatched it, takes no record for not knowing.
	if err := h.ledger.Begin(op, p.Attempt); err != nil {
		return failed(batch.ToolErrorUnavailable, "%v", err)
	}
	stop := h.events.follow(op, s)
	out, err := exec.Invoke(withOperation(ctx, op), &batch.Call{
		Run: p.Run, Step: p.Step, Index: p.Index, ID: p.ID, Tool: p.Name, Arguments: body.Arguments,
		Attempt: p.Attempt, ToolDigest: p.ToolDigest, Grant: p.Grant, State: body.State,
	})
	stop()
	rec := sandbox.LedgerRecord{Operation: op, Attempt: p.Attempt, Done: true, Output: out}
	if err != nil {
		rec = failed(batch.ToolErrorExecution, "%v", err)
		var te *batch.ToolError
		if errors.As(err, &te) {
			rec.Failed, rec.Message = te.Kind, te.Text()
		}
	} else if out == nil {
		rec = failed(batch.ToolErrorExecution, "tool %s gave no output", p.Name)
	}
	if err := h.ledger.Finish(rec); err != nil {
		// It ran, and the host hears so now; only a host that must ask later does not.
		h.o.Logger.Error("what an operation came to cannot be recorded", "operation", string(op), "error", err)
	}
	return rec
}

// answer sends what an operation came to.
func (h *hand) answer(s *sandbox.Stream, p *sandbox.CallParams, rec sandbox.LedgerRecord) error {
	if rec.Output == nil {
		return &sandbox.RemoteError{Kind: string(rec.Failed), Msg: rec.Message}
	}
	out := *rec.Output
	out.CallID = p.ID
	b, err := sandbox.EncodeOutput(&out)
	if err != nil {
		return &sandbox.RemoteError{Kind: string(batch.ToolErrorExecution), Msg: err.Error()}
	}
	return s.EndWith(b, nil)
}
