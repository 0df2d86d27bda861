package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Options are the parts of a Host. Store, Gate and Registry are required.
type Options struct {
	Store     batch.Store
	Gate      batch.Gate
	Registry  *plugins.Registry
	Executors map[batch.Target]batch.Executor // a target without one is a placement error

	Logger           *slog.Logger // nil: discard
	MaxArgumentBytes int          // per call; 0: the engine's default
	MaxOutputBytes   int          // per call; 0: the engine's default

	TicketTimeout time.Duration // deadline of tickets where policy gives none; 0: the engine's default
	Retention     time.Duration // age at which finished runs are removed; 0: never

	// Observe hears of every commit; see batch.Options.
	Observe func(batch.RunID, []batch.Event)

	// DecisionLog hears of every decision; nil: the ledger alone keeps them.
	DecisionLog batch.DecisionLog
	// Owed is since when the ledger has what something else still needs of it, zero when
	// nothing does: Prune keeps the runs that changed since then. Nil: nothing ever does.
	Owed func() time.Time
	// Background runs from Start until Close, each on a goroutine of its own; Close ends
	// their contexts and waits for them before it releases the parts.
	Background []func(context.Context)

	// Close releases the parts, in order, when the Host is closed.
	Close []func() error
}

// Host runs assistant messages. All methods are safe for concurrent use.
type Host struct {
	*Ledger
	engine *batch.Engine
	o      Options

	sched     *scheduler
	closeOnce sync.Once
	closeErr  error
}

// New composes a Host, which owns what o.Close releases. It starts nothing.
func New(o Options) (*Host, error) {
	if o.Store == nil || o.Gate == nil || o.Registry == nil {
		return nil, errors.New("host: a store, a gate and a registry are needed")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{o: o}
	d := &delegation{store: o.Store, registry: o.Registry, next: o.Executors[batch.TargetBrain]}
	executors := maps.Clone(o.Executors)
	if executors == nil {
		executors = map[batch.Target]batch.Executor{}
	}
	executors[batch.TargetBrain] = d
	e, err := batch.NewEngine(batch.Options{
		Store: o.Store, Gate: o.Gate, Executors: executors, TicketTimeout: o.TicketTimeout,
		Catalog: func() batch.Catalog { return o.Registry.Load() },
		Logger:  o.Logger, MaxArgumentBytes: o.MaxArgumentBytes, MaxOutputBytes: o.MaxOutputBytes,
		Observe: h.observe, DecisionLog: o.DecisionLog,
	})
	if err != nil {
		return nil, err
	}
	h.engine, d.engine = e, e
	h.Ledger = NewLedger(o.Store)
	h.sched = newScheduler(e, o.Logger)
	return h, nil
}

func (h *Host) observe(run batch.RunID, events []batch.Event) {
	for _, ev := range events {
		if ev.Kind == batch.EventCallAwaiting {
			h.sched.poke()
		}
	}
	if h.o.Observe != nil {
		h.o.Observe(run, events)
	}
}

// Start continues every batch that an earlier process left able to go on, and
// returns when that is done; then tickets fire when their time comes, until
// Close. A run that cannot be continued is logged and left as it is: it does not
// keep the host from working. The error is that of ctx, or of the store.
func (h *Host) Start(ctx context.Context) error {
	n, err := h.engine.Recover(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		h.o.Logger.Error("some runs could not be continued", "err", err)
	}
	if n > 0 {
		h.o.Logger.Info("continued runs of an earlier process", "runs", n)
	}
	if h.sched.start() {
		for _, f := range h.o.Background {
			h.sched.beside(f)
		}
	}
	if h.o.Retention > 0 {
		h.sched.every(pruneEvery, func(ctx context.Context) {
			if _, err := h.Prune(ctx, h.o.Retention, false); err != nil && ctx.Err() == nil {
				h.o.Logger.Error("cannot remove old runs", "err", err)
			}
		})
	}
	return nil
}

// Request is a message to run, and for whom.
type Request struct {
	Run       batch.RunID // empty: a fresh run
	Step      int         // 0: the run's next
	Principal string
	Agent     string
	Labels    map[string]string
	Message   *Message
}

// Run executes the message's calls as one batch and returns the result, published
// or parked. Submission is idempotent as batch.Engine.Submit says.
func (h *Host) Run(ctx context.Context, r Request) (*Result, error) {
	if r.Message == nil {
		return nil, errors.New("host: a request needs a message")
	}
	if r.Run == "" {
		r.Run = batch.NewRunID(now())
	}
	b, err := h.engine.Submit(ctx, &batch.Request{
		Run: r.Run, Step: r.Step, Principal: r.Principal, Agent: r.Agent, Labels: r.Labels,
		Dialect: string(r.Message.Dialect), Message: r.Message.Raw, Calls: r.Message.Calls,
	})
	if err != nil {
		return nil, err
	}
	return h.result(ctx, b)
}

// Decide records a decision on a ticket and continues its batch. The result is
// set, besides batch.ErrTicketLate, when a late decision let the batch go on.
func (h *Host) Decide(ctx context.Context, id batch.TicketID, a batch.TicketAnswer) (*Result, error) {
	b, err := h.engine.Decide(ctx, id, a)
	return h.settled(ctx, b, err)
}

// Tools lists the tools in force, by name.
func (h *Host) Tools() []*plugins.Tool { return h.o.Registry.Load().Tools() }

// Tool returns a tool in force by the name the model sees.
func (h *Host) Tool(name batch.ToolID) (*plugins.Tool, bool) { return h.o.Registry.Load().Tool(name) }

// Close stops the scheduler, waits for what it has under way, and releases the
// parts. Calls in flight must have ended: cancel their contexts first.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.sched.stop()
		var errs []error
		for _, f := range h.o.Close {
			errs = append(errs, f())
		}
		h.closeErr = errors.Join(errs...)
	})
	return h.closeErr
}
