package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Report is what Check found out about a tier.
type Report struct {
	Tier       string
	Usable     bool
	Properties Properties    // merged from outside and from inside; nil when not Usable
	Effective  *Effective    // as the engine or the kernel says; nil when not Usable
	Took       time.Duration // from the start of a boundary until the Hand in it answered
	Err        error         // why it is not Usable
}

// Unmet lists what r does not show to be enforced of what is demanded, one line for
// each; why the tier is not usable where it is not.
func (r *Report) Unmet(demanded Requirements) []string {
	if !r.Usable {
		return []string{r.Err.Error()}
	}
	return demanded.Unmet(r.Properties)
}

// checkTimeout bounds the life of the boundary that Check starts, but for how long a
// tier takes to start one.
const checkTimeout = 30 * time.Second

// Check starts a throw-away boundary of the tier, as spec says, has the Hand in it look
// around, reads back from outside what is in force, and ends it again. Of spec, what
// names an Environment and its folders may be empty: they are made up, and the folders
// removed. The error is for what is left behind, and for a ctx that ended; that the
// tier does not work is in the Report.
func Check(ctx context.Context, t Tier, spec *Spec) (*Report, error) {
	r := &Report{Tier: t.Name()}
	if r.Err = t.Check(ctx); r.Err != nil {
		return r, ctx.Err()
	}
	s, remove, err := throwAway(t, spec)
	if err != nil {
		return nil, err
	}
	err = r.look(ctx, t, s)
	r.Usable = r.Err == nil
	return r, errors.Join(err, remove(), ctx.Err())
}

// throwAway fills in what names an Environment of no session.
func throwAway(t Tier, spec *Spec) (*Spec, func() error, error) {
	s := *spec
	if s.ID == "" {
		s.ID = "check-" + strings.ToLower(rand.Text()[:12])
	}
	if s.Labels == (Labels{}) {
		s.Labels = Labels{Host: s.ID, Owner: s.ID, Environment: s.ID}
	}
	if s.Workspace != "" && s.State != "" {
		return &s, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "awaken-check-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return RemoveTree(dir) }
	// A user of the Hand's own has to get through to its folders.
	err = os.Chmod(dir, 0o711) //nolint:gosec // the folders in it are 0700
	s.Workspace, s.State = filepath.Join(dir, "workspace"), filepath.Join(dir, "state")
	for _, name := range []string{s.Workspace, s.State} {
		err = errors.Join(err, os.Mkdir(name, 0o700))
		if u, is := t.(HandUser); is && os.Geteuid() == 0 {
			if uid, gid, ok := u.HandUser(); ok {
				err = errors.Join(err, os.Lchown(name, uid, gid))
			}
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return &s, remove, nil
}

// look fills in the report from a boundary that lives no longer than it. What is
// returned is what could not be ended.
func (r *Report) look(ctx context.Context, t Tier, spec *Spec) error {
	begin := time.Now()
	inst, err := t.Start(ctx, spec)
	if err != nil {
		r.Err = err
		return nil
	}
	within, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("no answer within %s", checkTimeout))
	err = r.probe(within, inst, spec, begin)
	cancel()
	stopping, stopped := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer stopped()
	if err != nil {
		ended := whyEnded(stopping, inst)
		r.Err = &UnavailableError{Tier: r.Tier, Reason: ReasonStart, What: "the Hand in it cannot be spoken to: " + err.Error(), Err: ended, Remedy: wrongHand(ended)}
	}
	return inst.Stop(stopping)
}

// endWait is how long an Instance whose channel broke may take to have ended.
const endWait = 2 * time.Second

// whyEnded is why an Instance whose Hand does not answer has ended, nil while it runs.
func whyEnded(ctx context.Context, inst Instance) error {
	select {
	case <-inst.Done():
		return inst.Ended(ctx)
	case <-time.After(endWait):
		return nil
	}
}

func (r *Report) probe(ctx context.Context, inst Instance, spec *Spec, begin time.Time) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	hello := Hello{Environment: spec.ID, Key: key, Network: spec.Network, Limits: spec.Limits.WithDefaults(), Mounts: map[string]bool{}}
	for _, m := range spec.Mounts {
		hello.Mounts[m.Target] = m.Writable
	}
	if p, is := inst.(Placer); is {
		hello.Places = p.Places()
	}
	ch, _, err := Dial(ctx, inst.Channel(), hello, ChannelOptions{})
	if err != nil {
		return err
	}
	r.Took = time.Since(begin)
	inside := Properties{}
	s, err := ch.Open(ctx, MethodProbe, nil)
	if err == nil {
		if err = s.CloseWrite(); err == nil {
			err = s.Result(&inside)
		}
	}
	if err != nil {
		return errors.Join(err, ch.Close())
	}
	if r.Effective, err = inst.Inspect(ctx); err != nil {
		return errors.Join(fmt.Errorf("what is in force cannot be read back: %w", err), ch.Close())
	}
	r.Properties = r.Effective.Properties.Merge(inside)
	return ch.Close()
}
