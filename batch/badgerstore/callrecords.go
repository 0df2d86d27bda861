package badgerstore

import (
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// encodePayload encodes what never changes of a batch.
func encodePayload(b *batch.Batch) (encoded, error) {
	size := 256 + len(b.Message)
	for i := range b.Calls {
		size += 320 + len(b.Calls[i].Call.Arguments)
	}
	e := newRecord(kindPayload, size)
	putString(e, b.Dialect)
	putString(e, b.Digest)
	putString(e, b.CatalogFingerprint)
	e.time(b.RequestedAt)
	e.bytes(b.Message)
	e.list(false, len(b.Calls))
	for i := range b.Calls {
		c, p := &b.Calls[i].Call, &b.Calls[i].Pin
		putString(e, c.ID)
		putString(e, c.Tool)
		e.bytes(c.Arguments)
		putString(e, p.ToolDigest)
		putString(e, p.Plugin)
		putString(e, p.Target)
		putString(e, p.Capability)
		putString(e, p.Policy)
		e.int(p.MaxAttempts)
		putString(e, p.PolicyRevision)
		e.bool(p.Client)
		e.bool(p.Delegate)
	}
	return e.seal()
}

// decodePayload returns the batch as it was requested, without its phase.
func decodePayload(run batch.RunID, step int, rec []byte) (*batch.Batch, error) {
	d := openRecord(kindPayload, rec)
	b := &batch.Batch{
		Run: run, Step: step,
		Dialect: getString[string](d), Digest: getString[string](d), CatalogFingerprint: getString[string](d),
		RequestedAt: d.time(), Message: d.bytes(),
	}
	n, _ := d.list()
	b.Calls = make([]batch.CallState, 0, min(n, batch.MaxCalls))
	for i := range n {
		b.Calls = append(b.Calls, batch.CallState{
			Call: batch.Call{Run: run, Step: step, Index: i, ID: getString[batch.CallID](d), Tool: getString[batch.ToolID](d), Arguments: d.bytes()},
			Pin: batch.Pin{
				ToolDigest: getString[string](d), Plugin: getString[string](d), Target: getString[batch.Target](d),
				Capability: getString[batch.RecoveryCapability](d), Policy: getString[batch.RecoveryPolicy](d),
				MaxAttempts: d.int(), PolicyRevision: getString[string](d),
			},
			Phase: batch.PhaseRequested,
		})
		if d.format >= 2 {
			p := &b.Calls[i].Pin
			p.Client, p.Delegate = d.bool(), d.bool()
		}
		if d.err != nil {
			break
		}
	}
	return b, d.done()
}

// encodeCall encodes what changes of a call.
func encodeCall(c *batch.CallState) (encoded, error) {
	size := 192
	if c.Output != nil {
		size += c.Output.Size() + 64*(len(c.Output.Content)+len(c.Output.State))
	}
	e := newRecord(kindCall, size)
	putString(e, c.Phase)
	e.int(c.Attempt)
	putString(e, c.Ticket)
	putGrant(e, c.Grant)
	putString(e, c.Answer)
	putString(e, c.Reason)
	e.time(c.StartedAt)
	e.time(c.EndedAt)
	e.bool(c.Output != nil)
	if c.Output != nil {
		putOutput(e, c.Output)
	}
	return e.seal()
}

// decodeCall fills the changing part of c from its record.
func decodeCall(c *batch.CallState, rec []byte) error {
	d := openRecord(kindCall, rec)
	c.Phase, c.Attempt, c.Ticket, c.Grant = getString[batch.Phase](d), d.int(), getString[batch.TicketID](d), getGrant(d)
	c.Answer, c.Reason = getString[batch.Answer](d), getString[string](d)
	c.StartedAt, c.EndedAt = d.time(), d.time()
	if c.Output = nil; d.bool() {
		c.Output = getOutput(d)
	}
	return d.done()
}

func putOutput(e *encoder, o *batch.Output) {
	putString(e, o.CallID)
	e.bool(o.IsError)
	putString(e, o.Tier)
	putString(e, o.Fallback)
	e.list(o.Content == nil, len(o.Content))
	for _, b := range o.Content {
		putString(e, b.Type)
		putString(e, b.Text)
		e.bytes(b.Data)
		putString(e, b.MimeType)
		putString(e, b.URI)
		e.bytes(b.JSON)
	}
	e.list(o.State == nil, len(o.State))
	for _, c := range o.State {
		putString(e, c.Op)
		putString(e, c.Key)
		e.bytes(c.Value)
	}
}

func getOutput(d *decoder) *batch.Output {
	o := &batch.Output{CallID: getString[batch.CallID](d), IsError: d.bool(), Tier: getString[string](d)}
	if d.format >= 3 {
		o.Fallback = getString[string](d)
	}
	if n, ok := d.list(); ok {
		o.Content = make([]batch.ContentBlock, 0, min(n, 16))
		for range n {
			o.Content = append(o.Content, batch.ContentBlock{
				Type: getString[batch.BlockType](d), Text: getString[string](d), Data: d.bytes(),
				MimeType: getString[string](d), URI: getString[string](d), JSON: d.bytes(),
			})
			if d.err != nil {
				return o
			}
		}
	}
	if n, ok := d.list(); ok {
		o.State = make([]batch.Command, 0, min(n, 16))
		for range n {
			o.State = append(o.State, batch.Command{Op: getString[batch.Op](d), Key: getString[string](d), Value: d.bytes()})
			if d.err != nil {
				return o
			}
		}
	}
	return o
}

func putGrant(e *encoder, g *batch.Grant) {
	e.bool(g != nil)
	if g == nil {
		return
	}
	putStrings(e, g.Hosts)
	putMap(e, g.Paths, func(mode string) { putString(e, mode) })
	putStrings(e, g.Commands)
	e.int(g.MemoryMiB)
	e.int(int(g.Timeout))
}

func getGrant(d *decoder) *batch.Grant {
	if !d.bool() {
		return nil
	}
	return &batch.Grant{
		Hosts: getStrings[string](d), Paths: getMap[string](d, func() string { return getString[string](d) }),
		Commands: getStrings[string](d), MemoryMiB: d.int(), Timeout: time.Duration(d.int()),
	}
}

func encodeDecision(r *batch.DecisionRecord) (encoded, error) {
	e := newRecord(kindDecision, 512+len(r.Input))
	putString(e, r.Operation)
	e.int(r.Seq)
	e.time(r.Time)
	putString(e, r.Principal)
	putString(e, r.Agent)
	putString(e, r.Tool)
	putString(e, r.ToolDigest)
	putString(e, r.ArgumentDigest)
	putString(e, r.PolicyRevision)
	putString(e, r.Outcome)
	e.list(r.Reasons == nil, len(r.Reasons))
	for _, reason := range r.Reasons {
		putString(e, reason.Code)
		putString(e, reason.Message)
		putString(e, reason.Detail)
	}
	putGrant(e, r.Grant)
	e.bool(r.Approval != nil)
	if a := r.Approval; a != nil {
		putString(e, a.Kind)
		putString(e, a.Ticket)
		putStrings(e, a.By)
		e.time(a.At)
		e.time(a.Requested)
	}
	e.int(int(r.Elapsed))
	e.bytes(r.Input)
	return e.seal()
}

func decodeDecision(rec []byte) (*batch.DecisionRecord, error) {
	d := openRecord(kindDecision, rec)
	r := &batch.DecisionRecord{
		Operation: getString[batch.OperationID](d), Seq: d.int(), Time: d.time(),
		Principal: getString[string](d), Agent: getString[string](d), Tool: getString[batch.ToolID](d),
		ToolDigest: getString[string](d), ArgumentDigest: getString[string](d), PolicyRevision: getString[string](d),
		Outcome: getString[batch.Outcome](d),
	}
	if n, ok := d.list(); ok {
		r.Reasons = make([]batch.Reason, 0, min(n, 16))
		for range n {
			reason := batch.Reason{Code: getString[string](d), Message: getString[string](d)}
			if d.format >= 2 {
				reason.Detail = getString[string](d)
			}
			r.Reasons = append(r.Reasons, reason)
			if d.err != nil {
				break
			}
		}
	}
	r.Grant = getGrant(d)
	if d.bool() {
		r.Approval = &batch.Approval{
			Kind: getString[batch.TicketKind](d), Ticket: getString[batch.TicketID](d), By: getStrings[string](d),
			At: d.time(), Requested: d.time(),
		}
	}
	r.Elapsed, r.Input = time.Duration(d.int()), d.bytes()
	return r, d.done()
}
