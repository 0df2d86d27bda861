package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// handshakeTimeout bounds how long a Hand that was started may take to answer.
const handshakeTimeout = 30 * time.Second

// hand is a running Instance and the channel to the Hand in it. It is safe for
// concurrent use.
type hand struct {
	tier    string
	carries bool
	inst    Instance
	ch      *Channel
	desk    *desk
	log     *slog.Logger

	mu      sync.Mutex
	plugins map[string]*sentPlugin // by PluginImage.Key

	measuring sync.Mutex
	measured  Properties // nil: not yet

	stopping sync.Once
	stopped  chan struct{} // closed when stop has ended
	stopErr  error
}

// sentPlugin is a plugin on its way to a Hand, or there.
type sentPlugin struct {
	done chan struct{}
	err  error
	warm atomic.Bool // a call of it has ended here, so that its code is compiled
}

// connect starts an Instance and says hello to the Hand in it. When it fails, nothing
// of the Instance is left, or the error says what.
func connect(ctx context.Context, t Tier, spec *Spec, key []byte, d *desk, beat time.Duration, log *slog.Logger, watch *startWatch) (*hand, error) {
	watch.now(t.Name() + " to start it")
	inst, err := t.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	watch.now("the Hand in it to answer")
	h, err := greet(ctx, t, inst, spec, key, d, beat, log)
	if err != nil {
		return nil, err
	}
	if h.carries {
		watch.now("its workspace to be carried in")
		if err := h.seed(ctx, spec); err != nil {
			err = h.unavailable(ctx, err)
			return nil, errors.Join(err, h.stop(ctx))
		}
	}
	return h, nil
}

// greet dials the Hand of an Instance, which is stopped when that fails.
func greet(ctx context.Context, t Tier, inst Instance, spec *Spec, key []byte, d *desk, beat time.Duration, log *slog.Logger) (*hand, error) {
	d.inst = inst
	h := &hand{tier: t.Name(), carries: carries(t), inst: inst, desk: d, log: log, plugins: map[string]*sentPlugin{}, stopped: make(chan struct{})}
	hello := Hello{Environment: spec.ID, Key: key, Network: spec.Network, Limits: spec.Limits.WithDefaults()}
	for _, m := range spec.Mounts {
		if m.Target == CodeDir {
			hello.Code = true
			continue // no place of calls
		}
		if hello.Mounts == nil {
			hello.Mounts = map[string]bool{}
		}
		hello.Mounts[m.Target] = m.Writable
	}
	if p, is := inst.(Placer); is {
		hello.Places = p.Places()
	}
	within, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("it did not answer within %s", handshakeTimeout))
	defer cancel()
	var err error
	h.ch, _, err = Dial(within, inst.Channel(), hello, ChannelOptions{Serve: d.serve, Logger: log, Heartbeat: beat})
	if err != nil {
		err = h.unavailable(ctx, err)
		return nil, errors.Join(err, h.stop(ctx))
	}
	return h, nil
}

func carries(t Tier) bool {
	c, is := t.(Carrier)
	return is && c.Carries()
}

// unavailable says why a Hand that was started is of no use: because its Instance
// ended, if it did.
func (h *hand) unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("starting a sandbox (tier %s) was stopped: %w", h.tier, context.Cause(ctx))
	}
	if ended := h.ended(ctx); ended != nil {
		err = ended
	}
	return &UnavailableError{Tier: h.tier, Reason: ReasonStart, What: err.Error(), Err: nil, Transient: ReasonOf(err) == ReasonLost, Remedy: wrongHand(err)}
}

// wrongHand is what to do about a Hand that ended by itself before it said anything: it
// may be another program.
func wrongHand(ended error) string {
	if ReasonOf(ended) != ReasonExited {
		return ""
	}
	return "see that [sandbox].hand_bin, or the awaken-hand beside this program or in the image, is that of this release"
}

// endedWait is how long an Instance whose channel broke may take to have ended.
const endedWait = 2 * time.Second

// ended says why the Instance ended, nil when it runs.
func (h *hand) ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endedWait)
	defer cancel()
	select {
	case <-h.inst.Done():
		return h.inst.Ended(ctx)
	case <-ctx.Done():
		return nil
	}
}

// alive reports whether calls can be sent.
func (h *hand) alive() bool {
	select {
	case <-h.ch.Done():
		return false
	case <-h.inst.Done():
		return false
	case <-h.stopped:
		return false
	default:
		return true
	}
}

// stopTimeout bounds how long ending an Instance may take.
const stopTimeout = 30 * time.Second

// stop ends the Instance and everything in it. Whoever calls it again waits for the
// first to end and gets the same error.
func (h *hand) stop(ctx context.Context) error {
	h.stopping.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if h.ch != nil {
			_ = h.ch.Close()
		}
		h.stopErr = h.inst.Stop(ctx)
		if h.stopErr != nil {
			h.log.Error("a sandbox could not be ended; the next look for leftovers tries again", "tier", h.tier, "error", h.stopErr)
		}
		h.desk.close()
		close(h.stopped)
	})
	<-h.stopped
	return h.stopErr
}

// measure reads back what the boundary holds: from outside by the engine or kernel,
// and from inside by the Hand. It is done once, and shared by who comes meanwhile.
func (h *hand) measure(ctx context.Context) (Properties, error) {
	h.measuring.Lock()
	defer h.measuring.Unlock()
	if h.measured != nil {
		return h.measured, nil
	}
	eff, err := h.inst.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("what the sandbox (tier %s) holds cannot be read back: %w", h.tier, err)
	}
	var inside Properties
	if err := h.ask(ctx, MethodProbe, nil, &inside); err != nil {
		return nil, fmt.Errorf("the Hand (tier %s) cannot look around: %w", h.tier, err)
	}
	h.measured = eff.Properties.Merge(inside)
	return h.measured, nil
}

// ask is a request without bodies.
func (h *hand) ask(ctx context.Context, method string, params, result any) error {
	s, err := h.ch.Open(ctx, method, params)
	if err != nil {
		return err
	}
	return s.Result(result)
}

// maxRecord bounds the answer about one operation.
const maxRecord = 256 << 20

// recorded asks the Hand what became of an operation.
func (h *hand) recorded(ctx context.Context, op batch.OperationID) (LedgerRecord, error) {
	var r LedgerRecord
	s, err := h.ch.Open(ctx, MethodLedger, LedgerQuery{Operation: op})
	if err != nil {
		return r, err
	}
	if err := s.CloseWrite(); err != nil {
		return r, err
	}
	var raw struct {
		LedgerRecord
		Output json.RawMessage `json:"output"`
	}
	if err := ReadJSON(s, maxRecord, &raw); err != nil {
		return r, err
	}
	if raw.Operation != op {
		return r, fmt.Errorf("asked for the record of operation %s the Hand gave that of %.200q", op, string(raw.Operation))
	}
	r = raw.LedgerRecord
	if len(raw.Output) > 0 && string(raw.Output) != "null" {
		r.Output, err = DecodeOutput(raw.Output)
	}
	return r, err
}

// know makes a plugin known to the Hand, with its code. Nothing of a call crosses
// before that. It reports whether code of it was compiled here before.
func (h *hand) know(ctx context.Context, img *image) (*sentPlugin, error) {
	h.mu.Lock()
	sent, there := h.plugins[img.Key]
	if !there {
		sent = &sentPlugin{done: make(chan struct{})}
		h.plugins[img.Key] = sent
	}
	h.mu.Unlock()
	if !there {
		// Who waits for it too does not lose it with the end of this one call.
		go func() {
			sent.err = h.send(context.WithoutCancel(ctx), img)
			if sent.err != nil {
				h.mu.Lock()
				delete(h.plugins, img.Key)
				h.mu.Unlock()
			}
			close(sent.done)
		}()
	}
	select {
	case <-sent.done:
		return sent, sent.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *hand) send(ctx context.Context, img *image) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var known PluginKnown
	if err := h.upload(ctx, MethodPlugin, nil, img.text, &known); err != nil {
		return fmt.Errorf("plugin %s: %w", img.Manifest.ID, err)
	}
	if !known.NeedModule {
		return nil
	}
	offer := ModuleOffer{SHA256: img.Manifest.Module.SHA256, Bytes: int64(len(img.module))}
	if err := h.upload(ctx, MethodModule, offer, img.module, nil); err != nil {
		return fmt.Errorf("module of plugin %s: %w", img.Manifest.ID, err)
	}
	return nil
}

// upload is a request with a body.
func (h *hand) upload(ctx context.Context, method string, params any, body []byte, result any) error {
	s, err := h.ch.Open(ctx, method, params)
	if err != nil {
		return err
	}
	// Where the peer refuses it, its result says why.
	_, werr := s.Write(body)
	if err := s.Result(result); err != nil {
		return err
	}
	return werr
}
