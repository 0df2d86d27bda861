package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// recallTimeout bounds how long looking for the record of a call may take.
const recallTimeout = 2 * time.Minute

// Recall implements batch.Recaller: the operation ledger of the session's Environment
// says how the call ended. What runs of the Environment is ended before, so that it is
// the last word.
func (x *executor) Recall(ctx context.Context, call *batch.Call) (*batch.Output, bool, error) {
	m := x.m
	m.mu.Lock()
	e := m.sessions[sessionOf(call)]
	m.mu.Unlock()
	t, ok := x.tool(call.Tool)
	if e == nil || !ok {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	rec, err := m.recordOf(ctx, e, nil, call.Operation())
	if err != nil || !rec.Done {
		return nil, false, err
	}
	// What was given to the call may be in the result, and this process has not read it.
	for _, name := range t.Plugin.Effective.Secrets {
		if _, err := t.Plugin.ReadSecret(ctx, name, m.o.Redactor); err != nil {
			return nil, false, fmt.Errorf("a recorded result is not used, because it could hold a secret that cannot be read now: %w", err)
		}
	}
	if rec.Output == nil {
		_, err := m.clean(t.Plugin, call, nil, remoteFailure(call, string(rec.Failed), rec.Message))
		return nil, true, err
	}
	ran := m.recordNow(e)
	rec.Output.Tier, rec.Output.Fallback = ran.Tier, ran.Fallback
	out, err := m.clean(t.Plugin, call, rec.Output, nil)
	return out, true, err
}

// recordOf returns what the ledger of an Environment has of an operation, after what
// runs of it, h or whatever there is, was ended.
func (m *Manager) recordOf(ctx context.Context, e *Environment, h *hand, op batch.OperationID) (LedgerRecord, error) {
	none := LedgerRecord{Operation: op}
	if h == nil {
		var err error
		if h, err = m.quiet(ctx, e); err != nil {
			return none, err
		}
	}
	rec := m.recordNow(e)
	t := m.o.tiers()[rec.Tier]
	if t != nil && carries(t) {
		return m.recordInside(ctx, e, h, t, op)
	}
	if h != nil {
		if h.alive() {
			if found, err := h.recorded(ctx, op); err == nil && found.Done {
				return found, nil
			}
		}
		if err := h.stop(ctx); err != nil {
			return none, err
		}
	} else if rec.Owner != "" {
		if err := m.clear(ctx, e, rec); err != nil {
			return none, err
		}
	}
	ledger, err := OpenLedger(e.ledger(), rec.Key)
	if err != nil {
		return none, err
	}
	found, err := ledger.Lookup(op)
	return found, errors.Join(err, ledger.Close())
}

// quiet waits until e neither starts nor stops, and returns its Hand, nil when it has
// none.
func (m *Manager) quiet(ctx context.Context, e *Environment) (*hand, error) {
	for {
		m.mu.Lock()
		moving := e.state == EnvironmentStarting || e.state == EnvironmentStopping
		h, wait := e.hand, m.changed
		m.mu.Unlock()
		if !moving {
			return h, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// recordInside asks for the record where it is kept inside of the boundary: the Hand
// there, or another one that is started in it.
func (m *Manager) recordInside(ctx context.Context, e *Environment, h *hand, t Tier, op batch.OperationID) (LedgerRecord, error) {
	if h != nil && h.alive() {
		return h.recorded(ctx, op)
	}
	found := LedgerRecord{Operation: op}
	err := m.rescue(ctx, e, t.Name(), func(ctx context.Context, h *hand) (err error) {
		found, err = h.recorded(ctx, op)
		return err
	})
	return found, err
}

// rescue attaches to what is left of an Environment whose Hand is gone, for tiers that
// keep workspace and ledger inside: it has look ask, and carries the workspace out. The
// boundary itself stays, for the reaper. Look may be nil.
func (m *Manager) rescue(ctx context.Context, e *Environment, tier string, look func(context.Context, *hand) error) error {
	a, is := m.o.tiers()[tier].(Attacher)
	if !is {
		return fmt.Errorf("tier %s cannot be attached to", tier)
	}
	left, err := a.Leftovers(ctx, m.host)
	if err != nil {
		return err
	}
	for _, l := range left {
		if l.Labels.Host != m.host || l.Labels.Environment != e.id {
			continue
		}
		return m.attach(ctx, e, a, l, look)
	}
	return fmt.Errorf("nothing is left of environment %s in tier %s", e.id, tier)
}

func (m *Manager) attach(ctx context.Context, e *Environment, a Attacher, l Leftover, look func(context.Context, *hand) error) error {
	inst, err := a.Attach(ctx, l)
	if err != nil {
		return err
	}
	rec := m.recordNow(e)
	h, err := greet(ctx, a, inst, m.spec(e, rec.Session), rec.Key, m.newDesk(), m.o.Heartbeat, m.o.Logger)
	if err != nil {
		return err
	}
	if look != nil {
		err = look(ctx, h)
	}
	if rec.Session != "" {
		err = errors.Join(err, h.harvest(ctx, e.workspace(), m.workspaceBytes()))
	}
	return errors.Join(err, h.stop(ctx))
}
