package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

const (
	// CleanTime bounds the removal of what a failed Start has left.
	cleanTime = 20 * time.Second
	// SettleTime is for an engine that was still making a container when its client was
	// ended: until then it may appear.
	settleTime = 1500 * time.Millisecond
	settleStep = 250 * time.Millisecond

	maxLine = 4 << 10 // of what is said before the Hand is ready

	// ClientFolder is beside the state folder: it goes with the Environment's.
	clientFolder = "client"
)

// Start runs the client's "run" and returns when the Hand says that it is ready: the
// engine itself does not say when a container has started, and asking it again would
// cost a tenth of the start.
func (t *Tier) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	f, err := t.look(ctx, false)
	if err != nil {
		return nil, err
	}
	i, err := t.start(ctx, f, spec)
	if err != nil && isConflict(err) && t.removeDead(ctx, spec) {
		i, err = t.start(ctx, f, spec)
	}
	if err != nil {
		t.forget()
		return nil, err
	}
	return i, nil
}

func (t *Tier) start(ctx context.Context, f *facts, spec *sandbox.Spec) (*instance, error) {
	mark := rand.Text()
	args, err := t.run(f, spec, mark)
	if err != nil {
		return nil, err
	}
	i, err := t.spawn(f, spec, args)
	if err != nil {
		return nil, t.failed("run", err)
	}
	select {
	case <-i.ready:
		return i, nil
	case <-i.done:
		err = i.exit
	case <-ctx.Done():
		err = context.Cause(ctx)
		i.cmd.Process.Kill() //nolint:errcheck // it has ended by itself then
		<-i.done
	}
	select {
	case <-i.ready: // and ended at once: Done and Ended tell
		if ctx.Err() == nil {
			return i, nil
		}
	default:
	}
	i.discard()
	var failed *sandbox.UnavailableError
	if ctx.Err() != nil {
		failed = t.unavailable(sandbox.ReasonStart, "the Hand was not ready in time", "")
		failed.Transient, failed.Err = true, err
		if text := i.said.String(); text != "" {
			failed.What += " (" + text + ")"
		}
	} else {
		failed = t.failed("run", &clientError{engine: t.engine.name, what: "run", said: i.said.String(), err: err})
	}
	if left := t.clean(ctx, spec, mark); left != nil {
		failed.What += "; and what it made could not be removed: " + left.Error()
	}
	return nil, failed
}

// Spawn starts the client. Its life is not bound to a context: Stop ends it, by
// removing the container.
func (t *Tier) spawn(f *facts, spec *sandbox.Spec, args []string) (*instance, error) {
	i := &instance{
		tier: t, facts: f, spec: *spec,
		name: containerName(spec.ID), ready: make(chan struct{}), done: make(chan struct{}),
	}
	i.spec.Mounts = append([]sandbox.Mount(nil), spec.Mounts...)
	i.cmd = t.client(context.WithoutCancel(context.Background()), args...)
	i.cmd.WaitDelay = 0
	pipes, started, err := process.Connect(i.cmd)
	if err != nil {
		return nil, err
	}
	i.pipes, i.cmd.Stderr = pipes, &i.said
	i.said.ready = sync.OnceFunc(func() { close(i.ready) })
	if t.engine.litters {
		i.scratch = filepath.Join(filepath.Dir(spec.State), clientFolder)
		i.cmd.Dir = i.scratch
		err = errors.Join(sandbox.RemoveTree(i.scratch), os.Mkdir(i.scratch, 0o700)) // a host that was killed has left it
	}
	if err == nil {
		err = i.cmd.Start()
	}
	started()
	if err != nil {
		i.discard()
		return nil, err
	}
	go func() {
		err := i.cmd.Wait()
		if err == nil {
			err = errors.New("it ended with status 0")
		}
		i.exit = err
		close(i.done)
	}()
	return i, nil
}

// Said is the standard error of a client: the engine's words, then the Hand's.
type said struct {
	mu    sync.Mutex
	tail  process.Tail
	line  strings.Builder // of the beginning, until the Hand is ready
	ready func()
	seen  bool
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen {
		return s.tail.Write(p)
	}
	for _, b := range p {
		if b != '\n' {
			if s.line.Len() < maxLine {
				s.line.WriteByte(b)
			}
			continue
		}
		line := strings.TrimSuffix(s.line.String(), "\r")
		s.line.Reset()
		if !s.seen && line == sandbox.HandReady {
			s.seen = true
			s.ready()
			continue
		}
		s.tail.Write([]byte(line + "\n")) //nolint:errcheck // it never fails
	}
	if s.seen {
		s.tail.Write([]byte(s.line.String())) //nolint:errcheck // it never fails
	}
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.tail.String()
	if !s.seen && s.line.Len() > 0 {
		text = strings.TrimSpace(text + "\n" + s.line.String())
	}
	return text
}

func isConflict(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "already in use")
}

// RemoveDead removes the container that has the name of this Environment's, if an
// earlier owner of the same host left it: this process holds the host's folder, so
// that one is dead. It says whether another try makes sense.
func (t *Tier) removeDead(ctx context.Context, spec *sandbox.Spec) bool {
	list, err := t.inspect(ctx, containerName(spec.ID))
	if err != nil || len(list) != 1 {
		return false
	}
	l := list[0].labels()
	if l.Host != spec.Labels.Host || l.Owner == spec.Labels.Owner || l.Environment != spec.ID {
		return false
	}
	t.logger.Info("removing a container that a dead owner left", "tier", t.engine.name, "container", containerName(spec.ID), "owner", l.Owner)
	return t.remove(ctx, list[0].ID) == nil
}

// Clean removes what a failed Start has made. It is found by its label and not by its
// name, which may be another's.
func (t *Tier) clean(ctx context.Context, spec *sandbox.Spec, mark string) error {
	early := ctx.Err() != nil // the client was ended, and the engine may not have noticed
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	until := time.Now().Add(settleTime)
	for {
		ids, err := t.find(ctx, labelStart+"="+mark)
		if err != nil {
			if t.failed("ps", err).Reason == sandbox.ReasonEngine || errors.Is(err, exec.ErrNotFound) {
				t.logger.Warn("the engine does not answer: what a failed start left is removed by the next one",
					"tier", t.engine.name, "container", containerName(spec.ID), "error", err)
				return nil
			}
			return fmt.Errorf("container %s: %w", containerName(spec.ID), err)
		}
		for _, id := range ids {
			if err := t.remove(ctx, id); err != nil {
				return err
			}
		}
		if !early || time.Now().After(until) {
			return nil
		}
		select {
		case <-time.After(settleStep):
		case <-ctx.Done():
			return nil
		}
	}
}
