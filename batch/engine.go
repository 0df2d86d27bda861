package batch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"maps"
	"strings"
	"time"
)

// Errors of the Engine, to be compared with errors.Is; returned errors name the
// run, batch or ticket.
var (
	// ErrContent: the run and step exist with other content.
	ErrContent = errors.New("step was submitted with other content")
	// ErrOpen: the run's current step is not published yet.
	ErrOpen = errors.New("run has an open step")
	// ErrStep: the step is not the run's next one.
	ErrStep = errors.New("wrong step")
	// ErrOwner: the run belongs to another principal or agent.
	ErrOwner = errors.New("run belongs to another principal or agent")
	// ErrRecoveryPolicy: the pinned recovery policy is wider than the capability.
	ErrRecoveryPolicy = errors.New("recovery policy is wider than the tool's capability")
)

// Options configures an Engine. Store, Gate and Catalog are required.
type Options struct {
	Store Store
	Gate  Gate
	// Catalog returns the tools in force; asked once per submission or resume, so
	// that a batch never sees a mix.
	Catalog func() Catalog
	// Executors by target; a target without one is a placement error.
	Executors map[Target]Executor

	Owner            string           // fence owner; empty: a random one
	Now              func() time.Time // nil: time.Now
	Logger           *slog.Logger     // nil: discard
	MaxArgumentBytes int              // per call; 0: 4 MiB
	MaxOutputBytes   int              // per call; 0: 16 MiB
	TicketTimeout    time.Duration    // deadline where policy gives none; 0: 7 days
	RetryDelay       time.Duration    // before the second attempt, doubled after each; 0: 100 ms
	StopGrace        time.Duration    // for an executor to return once its context has ended; 0: 5 s
	MaxDepth         int              // of delegation; 0: 4

	// Observe, when set, hears of every commit after it is durable, in order for
	// each run. It is called on the committing goroutine and must not block or
	// call the Engine.
	Observe func(RunID, []Event)

	// DecisionLog hears of every decision; nil: the ledger alone keeps them.
	DecisionLog DecisionLog
}

// Engine drives batches through the pipeline: requested, decided, executed,
// recorded, published. All methods are safe for concurrent use; work on one run
// is serialised, work on different runs is not. The Engine starts no goroutine
// that outlives a call.
type Engine struct {
	o      Options
	locks  keyedLock
	stops  stops
	recent *recent
}

// NewEngine returns an Engine over the given ports. The caller keeps ownership of
// all of them.
func NewEngine(o Options) (*Engine, error) {
	if o.Store == nil || o.Gate == nil || o.Catalog == nil {
		return nil, errors.New("batch: an engine needs a store, a gate and a catalog")
	}
	o.Executors = maps.Clone(o.Executors)
	if o.Owner == "" {
		o.Owner = randomID("host-")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.MaxArgumentBytes, 4<<20)
	setDefault(&o.MaxOutputBytes, 16<<20)
	setDefault(&o.TicketTimeout, 7*24*time.Hour)
	setDefault(&o.RetryDelay, 100*time.Millisecond)
	setDefault(&o.StopGrace, 5*time.Second)
	setDefault(&o.MaxDepth, 4)
	return &Engine{o: o, recent: newRecent()}, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (e *Engine) now() time.Time { return e.o.Now().UTC().Round(0) }

// randomID returns prefix and 64 random bits in lower case letters and digits.
func randomID(prefix string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// NewRunID returns a fresh run id that sorts by time: "20060102t150405-xxxxxxxxxxxxx".
func NewRunID(at time.Time) RunID {
	return RunID(randomID(at.UTC().Format("20060102t150405") + "-"))
}

// Request is one assistant message to run. It may not be changed while Submit
// runs.
type Request struct {
	Run       RunID
	Step      int // 0: the run's next; see Submit
	Principal string
	Agent     string
	Labels    map[string]string
	Dialect   string // form of Message, for whoever renders the answer
	Message   []byte // the assistant message as received; may be nil
	Calls     []RequestedCall

	// Parent and Depth make the run the child of a delegation call. Only a Delegator
	// sets them; nothing a client sends may.
	Parent OperationID
	Depth  int
}

// RequestedCall is a call as the model emitted it.
type RequestedCall struct {
	ID        CallID
	Tool      ToolID
	Arguments []byte
}

// Digest identifies the content of a submission: ids, tools and argument bytes in
// model order, in hex.
func (r *Request) Digest() string {
	h := sha256.New()
	for _, c := range r.Calls {
		hashPart(h, string(c.ID))
		hashPart(h, string(c.Tool))
		hashPart(h, string(c.Arguments))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashPart(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	_, _ = h.Write(n[:])
	_, _ = io.WriteString(h, s)
}

// Submit commits the batch as requested and drives it until it is finalized or
// parked. Phases and tickets in the returned batch tell which; the batch belongs
// to the caller.
//
// Submission is idempotent: the same run and step with the same content returns
// the batch that is there, continued if it is open; other content is ErrContent.
// Without a step the run's next one is taken, unless the open step has this very
// content, which makes it a repeated submission. A new step while another is open
// is ErrOpen. A batch that breaks a rule of Batch.Validate is ErrInvalid, and
// nothing of it is stored.
//
// When ctx ends the call that runs is told to stop, nothing more is started, and
// what was committed stays for Recover.
func (e *Engine) Submit(ctx context.Context, req *Request) (*Batch, error) {
	if err := errors.Join(req.Run.Validate(), checkName("principal", req.Principal), checkName("agent", req.Agent)); err != nil {
		return nil, err
	}
	var b *Batch
	err := e.hold(ctx, req.Run, func(ctx context.Context) (err error) {
		b, err = e.submit(ctx, req)
		return err
	})
	return b, err
}

// hold runs f as the one driver of a run, under a context that a cancel ends.
func (e *Engine) hold(ctx context.Context, run RunID, f func(context.Context) error) error {
	unlock, err := e.locks.lock(ctx, string(run))
	if err != nil {
		return err
	}
	defer unlock()
	held, done, err := e.stops.begin(ctx, run)
	if err != nil {
		return err
	}
	defer done()
	err = f(held)
	if err != nil && ctx.Err() == nil && held.Err() != nil {
		return fmt.Errorf("run %s: %w", run, ErrCancelled)
	}
	return err
}

func (e *Engine) submit(ctx context.Context, req *Request) (*Batch, error) {
	s, err := e.attach(ctx, req.Run)
	if errors.Is(err, ErrNotFound) {
		if req.Depth > e.o.MaxDepth {
			return nil, fmt.Errorf("run %s: delegation is %d deep, at most %d is allowed: %w", req.Run, req.Depth, e.o.MaxDepth, ErrInvalid)
		}
		s, err = e.newSession(&Run{
			ID: req.Run, Principal: req.Principal, Agent: req.Agent, Labels: maps.Clone(req.Labels), Parent: req.Parent, Depth: req.Depth,
			Fence: Fence{Owner: e.o.Owner, Epoch: 1}, CreatedAt: e.now(),
		}), nil
		s.fresh = true
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkOwner(req); err != nil {
		return nil, err
	}
	step, known, err := s.chooseStep(ctx, req)
	if err != nil {
		return nil, err
	}
	if known == nil {
		if known, err = s.request(ctx, req, step); err != nil {
			return nil, err
		}
	}
	s.adopt(known)
	return s.b, s.drive(ctx)
}

func (s *session) checkOwner(req *Request) error {
	r := s.run
	if r.Version == 0 {
		return nil
	}
	if req.Parent != r.Parent {
		return fmt.Errorf("run %s: it is the child of %q, the submission says %q: %w", r.ID, r.Parent, req.Parent, ErrOwner)
	}
	if req.Principal != "" && req.Principal != r.Principal {
		return fmt.Errorf("run %s: principal is %q, the submission says %q: %w", r.ID, r.Principal, req.Principal, ErrOwner)
	}
	if req.Agent != "" && req.Agent != r.Agent {
		return fmt.Errorf("run %s: agent is %q, the submission says %q: %w", r.ID, r.Agent, req.Agent, ErrOwner)
	}
	if req.Labels != nil && !maps.Equal(req.Labels, r.Labels) {
		return fmt.Errorf("run %s: labels are fixed when the run begins: %w", r.ID, ErrOwner)
	}
	return nil
}

// chooseStep returns the step to request, or the batch that is there already.
func (s *session) chooseStep(ctx context.Context, req *Request) (int, *Batch, error) {
	r := s.run
	step := req.Step
	if step < 0 {
		return 0, nil, fmt.Errorf("run %s: step is %d, the first is 1: %w", r.ID, step, ErrStep)
	}
	if step == 0 && r.OpenStep != 0 {
		step = r.OpenStep
	} else if step == 0 {
		step = r.LastStep + 1
	}
	if step > r.LastStep && r.Cancelled != nil {
		return 0, nil, r.errCancelled()
	}
	if step > r.LastStep {
		if r.OpenStep != 0 {
			return 0, nil, s.errOpen()
		}
		if step != r.LastStep+1 {
			return 0, nil, fmt.Errorf("run %s: step %d was given, the next one is %d: %w", r.ID, step, r.LastStep+1, ErrStep)
		}
		return step, nil, nil
	}
	b, err := s.e.o.Store.Batch(ctx, r.ID, step)
	if err != nil {
		return 0, nil, err
	}
	if b.Digest == req.Digest() {
		return step, b, nil
	}
	if req.Step == 0 {
		return 0, nil, s.errOpen()
	}
	return 0, nil, fmt.Errorf("batch %s: %w", b.ID(), ErrContent)
}

func (s *session) errOpen() error {
	return fmt.Errorf("run %s: step %d is not published yet: decide its ticket, or submit it again to continue it: %w",
		s.run.ID, s.run.OpenStep, ErrOpen)
}

// request builds the batch, pins what is fixed for its life, and commits it whole
// before anything runs.
func (s *session) request(ctx context.Context, req *Request, step int) (*Batch, error) {
	b := &Batch{
		Run: req.Run, Step: step, Phase: BatchOpen, Digest: req.Digest(),
		Dialect: req.Dialect, Message: req.Message,
		CatalogFingerprint: s.catalog.Fingerprint(), RequestedAt: s.e.now(),
		Calls: make([]CallState, len(req.Calls)),
	}
	for i, rc := range req.Calls {
		pin, err := s.pin(rc.Tool)
		if err != nil {
			return nil, err
		}
		b.Calls[i] = CallState{
			Call:  Call{Run: req.Run, Step: step, Index: i, ID: rc.ID, Tool: rc.Tool, Arguments: rc.Arguments},
			Pin:   pin,
			Phase: PhaseRequested,
		}
	}
	if err := b.Validate(); err != nil {
		return nil, err
	}
	s.run.OpenStep, s.run.LastStep = step, step
	c := &Commit{Batch: b, NewBatch: true, Events: []Event{{Kind: EventBatchRequested, Step: step, Index: -1}}}
	if err := s.commit(ctx, c); err != nil {
		return nil, err
	}
	return b, nil
}

func (s *session) pin(id ToolID) (Pin, error) {
	p := Pin{PolicyRevision: s.e.o.Gate.Revision()}
	tool, ok := s.catalog.Lookup(id)
	if !ok {
		return p, nil
	}
	d := tool.Descriptor()
	p.ToolDigest, p.Plugin, p.Target = d.Digest, d.Plugin, d.Target
	p.Policy, p.MaxAttempts = d.Recovery, d.MaxAttempts
	setDefault(&p.MaxAttempts, DefaultMaxAttempts)
	if p.Policy == "" {
		p.Policy = NeverReplay
	}
	p.Capability = NonRecoverable
	if p.Client = d.Client; p.Client {
		return p, nil
	}
	if x := s.e.o.Executors[d.Target]; x != nil {
		if c := x.RecoveryCapability(id); c.Validate() == nil {
			p.Capability = c
		}
		if err := p.Policy.AllowedBy(p.Capability); err != nil {
			return p, fmt.Errorf("tool %s: %v: %w", id, err, ErrRecoveryPolicy)
		}
		if dg, ok := x.(Delegator); ok {
			p.Delegate = dg.Delegates(id)
		}
	}
	return p, nil
}
