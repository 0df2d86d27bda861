package hand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// Options configure Serve. They are copied.
type Options struct {
	// Version is what the host is told.
	Version string
	// Program is this program's file, which is started again beside each command with
	// the argument SuperviseArg. Empty: no command can be run.
	Program string
	// OwnProcess says that the process is a Hand and nothing else: children that it did
	// not start are what commands left to it, and are ended.
	OwnProcess bool
	// Logger gets what belongs to no call; the rest goes to the host. Nil: discarded.
	Logger *slog.Logger
}

// Ready is what a Hand says on standard error, if asked to, when the host can begin.
const Ready = sandbox.HandReady

// closeWithin is how long calls get to end when the host has gone.
const closeWithin = 5 * time.Second

// Serve answers the requests that come over rw until the host closes it, ctx ends, or
// the channel is lost. Then it ends every call and command, and returns; the error is
// nil where the host closed the channel. It changes limits of the process: one Serve
// at a time.
func Serve(ctx context.Context, rw io.ReadWriteCloser, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &hand{o: o, ready: make(chan struct{})}
	channel, hello, err := sandbox.Accept(ctx, rw, sandbox.Welcome{Hand: o.Version, PID: os.Getpid()},
		sandbox.ChannelOptions{Serve: h.serve, Logger: o.Logger})
	if err != nil {
		return fmt.Errorf("the host's hello: %w", err)
	}
	defer func() { _ = channel.Close() }()
	err = h.begin(ctx, channel, hello)
	if err != nil {
		h.broken = err
		o.Logger.Error("the Hand cannot work", "error", err)
	}
	close(h.ready)
	stop := context.AfterFunc(ctx, func() { _ = channel.Close() })
	defer stop()
	<-channel.Done()
	channel.Wait()
	return errors.Join(h.end(), ctx.Err())
}

// hand is what a Hand has while it serves one channel.
type hand struct {
	o       Options
	ready   chan struct{} // closed when the fields below are set
	broken  error         // why nothing can be served
	channel *sandbox.Channel
	hello   sandbox.Hello
	limits  sandbox.InstanceLimits
	places  places
	ledger  *sandbox.Ledger
	runtime *wasm.Runtime
	images  images
	events  *events
	exec    *commands

	mu      sync.Mutex
	running map[batch.OperationID]*running
}

func (h *hand) begin(ctx context.Context, channel *sandbox.Channel, hello sandbox.Hello) error {
	h.channel, h.hello, h.limits = channel, hello, hello.Limits.WithDefaults()
	h.places = newPlaces(hello)
	h.running = map[batch.OperationID]*running{}
	h.images.init()
	h.events = newEvents(slog.Level(hello.LogLevel), h.o.Logger.Handler())
	tune(h.limits.MemoryMiB)
	var err error
	if h.ledger, err = sandbox.OpenLedger(h.places.real(sandbox.StateDir), hello.Key); err != nil {
		return err
	}
	if err := h.ledger.Damage(); err != nil {
		h.o.Logger.Error("what some operations came to is not known", "error", err)
	}
	h.exec = newCommands(h)
	code := ""
	if hello.Code {
		code = h.places.real(sandbox.CodeDir)
	}
	h.runtime, err = wasm.New(ctx, wasm.Options{
		CodeDir: code,
		Logger:  slog.New(h.events), TotalMemoryMiB: guestMemoryMiB(h.limits.MemoryMiB),
		HTTP: &carrier{h}, Commands: h.exec,
	})
	return err
}

// handMiB is what the Hand itself needs of the memory of its boundary.
const handMiB = 48

// guestMemoryMiB is what guests may have together.
func guestMemoryMiB(limit int) int { return max(limit-handMiB, limit/2) }

// tune keeps the Hand small: it shares the limit of its boundary with what it runs.
func tune(limitMiB int) {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(int64(guestMemoryMiB(limitMiB)) << 20)
}

func (h *hand) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var errs []error
	if h.runtime != nil {
		if err := h.runtime.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("calls did not end in time: %w", err))
		}
	}
	if h.exec != nil {
		h.exec.close()
	}
	if h.ledger != nil {
		errs = append(errs, h.ledger.Close())
	}
	return errors.Join(errs...)
}

// serve answers one request of the host.
func (h *hand) serve(ctx context.Context, s *sandbox.Stream) (err error) {
	<-h.ready
	if h.broken != nil {
		return &sandbox.RemoteError{Kind: string(batch.ToolErrorUnavailable), Msg: h.broken.Error()}
	}
	defer func() {
		if r := recover(); r != nil {
			h.o.Logger.Error("a request failed in the Hand", "method", s.Method(), "error", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("the Hand failed: %v", r)
		}
	}()
	switch s.Method() {
	case sandbox.MethodPlugin:
		return h.plugin(s)
	case sandbox.MethodModule:
		return h.module(s)
	case sandbox.MethodCall:
		return h.call(ctx, s)
	case sandbox.MethodProbe:
		return s.End(probe(ctx, h.places, h.hello.Network, h.o.Program, h.exec.orphans.run))
	case sandbox.MethodLedger:
		return h.lookup(s)
	case sandbox.MethodList:
		return h.list(ctx, s)
	case sandbox.MethodGet:
		return h.get(s)
	case sandbox.MethodPut:
		return h.put(s)
	case sandbox.MethodSeed:
		return h.seed(s)
	case sandbox.MethodHarvest:
		return h.harvest(s)
	}
	return &sandbox.RemoteError{Kind: sandbox.RemoteRefused, Msg: fmt.Sprintf("a Hand does not serve %.40q", s.Method())}
}

// lookup answers what became of an operation.
func (h *hand) lookup(s *sandbox.Stream) error {
	var q sandbox.LedgerQuery
	if err := s.Params(&q); err != nil {
		return err
	}
	rec, err := h.ledger.Lookup(q.Operation)
	if err != nil {
		return err
	}
	b, err := sandbox.EncodeLedgerRecord(rec)
	if err != nil {
		return err
	}
	if _, err := s.Write(b); err != nil {
		return err
	}
	return s.End(nil)
}

// unavailable is a failure before anything of a call ran.
func unavailable(format string, a ...any) error {
	return &sandbox.RemoteError{Kind: string(batch.ToolErrorUnavailable), Msg: fmt.Sprintf(format, a...)}
}
