package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// classes are the errors by the words of the model.
var classes = map[string]error{
	"already decided":   batch.ErrAlreadyDecided,
	"approver":          batch.ErrApprover,
	"arguments":         batch.ErrArguments,
	"cancelled":         batch.ErrCancelled,
	"content":           batch.ErrContent,
	"fenced":            batch.ErrFenced,
	"invalid":           batch.ErrInvalid,
	"not found":         batch.ErrNotFound,
	"not indeterminate": batch.ErrNotIndeterminate,
	"open":              batch.ErrOpen,
	"owner":             batch.ErrOwner,
	"recovery policy":   batch.ErrRecoveryPolicy,
	"result":            batch.ErrResult,
	"step":              batch.ErrStep,
	"stopped":           context.Canceled,
	"ticket closed":     batch.ErrTicketClosed,
	"ticket kind":       batch.ErrTicketKind,
	"ticket late":       batch.ErrTicketLate,
}

// trouble is what comes into an action.
type trouble struct {
	kind string
	n    int
}

// GoString is how a history shows the trouble.
func (t trouble) GoString() string {
	switch t.kind {
	case "none":
		return "no trouble"
	case "crash before", "crash after", "fail before", "fail after":
		return fmt.Sprintf("%s store call %d", t.kind, t.n)
	case "fail commit before", "fail commit after":
		return fmt.Sprintf("%s commit %d", t.kind, t.n)
	}
	return fmt.Sprintf("%s after deed %d", t.kind, t.n)
}

// machine is one history: the world, the model, and what was last seen of the world.
type machine struct {
	w        *world
	ref      *reference
	seen     map[string]*record
	theme    theme
	troubles *rapid.Generator[trouble]
}

func newMachine(th theme) *machine {
	m := &machine{w: newWorld(), ref: newReference(), seen: map[string]*record{}, theme: th}
	kind := weighted(th.troubles)
	m.troubles = rapid.Custom(func(t *rapid.T) trouble {
		tr := trouble{kind: strings.ReplaceAll(kind.Draw(t, "kind"), "_", " ")}
		switch {
		case tr.kind == "none":
		case strings.Contains(tr.kind, "commit"):
			tr.n = upTo(8).Draw(t, "n")
		case strings.HasPrefix(tr.kind, "crash"), strings.HasPrefix(tr.kind, "fail"):
			tr.n = upTo(24).Draw(t, "n")
		default:
			tr.n = upTo(4).Draw(t, "n")
		}
		return tr
	})
	m.ref.order = func(run string, step int) []int {
		if rec, err := m.w.look(run, nil); err == nil && rec != nil {
			return rec.order[step]
		}
		return nil
	}
	return m
}

// act performs an action on the engine, with whatever trouble comes, and on the model,
// and compares. Run is the run that the action is about, empty: all of them.
func (m *machine) act(t *rapid.T, run string, engine func(context.Context, *batch.Engine) error, model func() string) {
	n := rapid.IntRange(0, 1).Draw(t, "host")
	tr := m.troubles.Draw(t, "trouble")
	h := m.w.hosts[n]
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	var fired storetest.Op
	fault := map[string]storetest.Fault{
		"crash before": storetest.FaultCrashBefore, "crash after": storetest.FaultCrashAfter,
		"fail before": storetest.FaultBefore, "fail after": storetest.FaultAfter,
		"fail commit before": storetest.FaultBefore, "fail commit after": storetest.FaultAfter,
	}[tr.kind]
	if run == "" && m.theme.exact && len(m.ids((*refRun).unfinished)) > 1 {
		fault = storetest.FaultNone
	}
	if fault != storetest.FaultNone {
		commits := 0
		h.store.SetPlan(func(op storetest.Op) storetest.Fault {
			if op.Method == "Commit" {
				commits++
			}
			if at := op.N; at != tr.n && !strings.Contains(tr.kind, "commit") ||
				strings.Contains(tr.kind, "commit") && (op.Method != "Commit" || commits != tr.n) || fired.N > 0 {
				return storetest.FaultNone
			}
			fired = storetest.Op{N: op.N, Method: op.Method}
			return fault
		})
	}
	var mo *moment
	if tr.kind == "stop" || tr.kind == "takeover" || strings.HasPrefix(tr.kind, "cancel") {
		// Recover drives runs side by side: how far each has come when one is taken over
		// or all are stopped is not for the model to say.
		unknown := run == "" && (tr.kind == "stop" || tr.kind == "takeover")
		if root := m.root(t, run); root != "" && !unknown {
			mo = &moment{kind: tr.kind, run: root, n: tr.n, after: tr.n, host: n, stop: stop}
		}
	}
	m.w.armed = mo
	err := engine(ctx, h.engine)
	m.w.waiting.Wait()
	m.w.armed = nil
	h.store.SetPlan(nil)
	crashed := h.store.Crashed()
	if crashed {
		m.w.start(n)
	}

	broken := crashed || fired.N > 0 && fired.Method != "Commit"
	before := map[string]*refRun{}
	if broken {
		m.ref.snaps = map[string][]*refRun{}
		for id, r := range m.ref.runs {
			before[id] = r.clone()
		}
	}
	m.ref.moment = m.modelled(mo)
	want := m.ref.perform(model)
	m.ref.moment = nil
	switch {
	case crashed:
		m.ref.seen["crash "+fired.Method]++
	case fired.N > 0:
		m.ref.seen["passing fault"]++
	case mo != nil && mo.hit:
		m.ref.seen[mo.kind]++
		if mo.err != nil {
			t.Fatalf("%s: %v", mo.kind, mo.err)
		}
	}
	if want != "" && !broken {
		m.ref.seen["error "+want]++
	}
	if broken {
		m.settle(t, run, before, err, want)
		return
	}
	if want == "" && err != nil || want != "" && !errors.Is(err, classes[want]) {
		t.Fatalf("the engine says %v, the model %q", err, want)
	}
	m.compare(t, m.touched(run))
}

// root is the run in which a moment may come: the one that the action is about, or
// that began it.
func (m *machine) root(t *rapid.T, run string) string {
	if run == "" {
		ids := m.ids(func(r *refRun) bool { return r.parent == "" && r.unfinished() })
		if len(ids) == 0 {
			return ""
		}
		return rapid.SampledFrom(ids).Draw(t, "where")
	}
	for m.ref.runs[run] != nil && m.ref.runs[run].parent != "" {
		run = m.ref.parentOf(run)
	}
	return run
}

// modelled is the moment as the model knows it.
func (m *machine) modelled(mo *moment) func(*refRun, deed) {
	if mo == nil || !mo.hit {
		return nil
	}
	left := mo.after
	return func(r *refRun, d deed) {
		if r.id != mo.run {
			return
		}
		if left--; left > 0 {
			return
		}
		m.ref.moment = nil
		switch mo.kind {
		case "takeover":
			m.ref.runs[r.id] = r.clone()
			m.ref.resume(r.id)
			m.ref.lost = r
		case "cancel there":
			m.ref.runs[r.id] = r.clone()
			m.ref.cancel(r.id, "boss")
			m.ref.lost = r
		case "cancel here":
			m.ref.unbegun(r, d)
			m.ref.cancel(r.id, "boss")
			panic(aborted{"cancelled"})
		case "stop":
			m.ref.stopped = true
		}
	}
}

// touched are the runs that an action on run may have changed.
func (m *machine) touched(run string) []string {
	ids := map[string]bool{}
	if run == "" {
		for id := range m.ref.runs {
			ids[id] = true
		}
	} else {
		ids = m.ref.family(run)
	}
	return slices.Sorted(maps.Keys(ids))
}

// read takes a fresh look at the given runs and holds the rules against it.
func (m *machine) read(t *rapid.T, ids []string) {
	now := maps.Clone(m.seen)
	for _, id := range ids {
		rec, err := m.w.look(id, m.seen[id])
		if err != nil {
			t.Fatalf("reading run %s: %v", id, err)
		}
		if rec == nil {
			if m.seen[id] != nil {
				t.Fatalf("run %s is gone", id)
			}
			continue
		}
		now[id] = rec
		for _, v := range violations(m.seen[id], rec) {
			t.Errorf("%s", v)
		}
	}
	for _, v := range append(familyViolations(now), m.w.faults...) {
		t.Errorf("%s", v)
	}
	m.seen = now
}

// compare holds the records of the given runs against the model.
func (m *machine) compare(t *rapid.T, ids []string) {
	m.read(t, ids)
	for _, id := range ids {
		want, got := m.ref.runs[id].text(), m.text(id)
		if got != want {
			t.Fatalf("what is recorded differs from the model:\n%s", diff(want, got))
		}
	}
}

func (m *machine) text(id string) string {
	if rec := m.seen[id]; rec != nil {
		return rec.text()
	}
	return (*refRun)(nil).text()
}

// settle finds out how far a broken action came: the records of each run are those
// after one of the model's steps. What was acknowledged is there to the end, unless
// it waits for a child that could not be reached.
func (m *machine) settle(t *rapid.T, run string, before map[string]*refRun, err error, want string) {
	if err != nil && !errors.Is(err, storetest.ErrInjected) && (want == "" || !errors.Is(err, classes[want])) {
		t.Fatalf("after a fault of the store the engine says %v", err)
	}
	ids := m.touched(run)
	snaps := m.ref.snaps
	m.ref.snaps = nil
	m.read(t, ids)
	for _, id := range ids {
		got := m.text(id)
		allowed := append([]*refRun{before[id]}, snaps[id]...)
		i := len(allowed) - 1
		for i >= 0 && allowed[i].text() != got {
			i--
		}
		switch {
		case i < 0:
			var b strings.Builder
			for i, a := range allowed {
				fmt.Fprintf(&b, "-- step %d of the model --\n%s", i, a.text())
			}
			t.Fatalf("after a fault the records are of no step of the model:\n%s-- recorded --\n%s", b.String(), got)
		case i < len(allowed)-1 && id == run && err == nil && (m.seen[id] == nil || !m.seen[id].delegating()):
			t.Fatalf("the action was acknowledged and did not come to its end:\n%s", diff(allowed[len(allowed)-1].text(), got))
		case allowed[i] == nil:
			delete(m.ref.runs, id)
		default:
			m.ref.runs[id] = allowed[i]
		}
	}
}

// upTo draws from 1 to n, all alike; rapid's own ranges prefer what is small.
func upTo(n int) *rapid.Generator[int] {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return rapid.SampledFrom(out)
}

// diff shows the lines that are not in both.
func diff(want, got string) string {
	w, g := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	var b strings.Builder
	b.WriteString(g[0])
	for _, l := range w {
		if !slices.Contains(g, l) {
			b.WriteString("  model:  " + l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			b.WriteString("  record: " + l)
		}
	}
	return b.String()
}

// ids are the runs of the model that fit, sorted.
func (m *machine) ids(fits func(*refRun) bool) (out []string) {
	for _, id := range slices.Sorted(maps.Keys(m.ref.runs)) {
		if fits(m.ref.runs[id]) {
			out = append(out, id)
		}
	}
	return out
}
