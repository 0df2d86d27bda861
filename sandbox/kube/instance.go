package kube

import (
	"context"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// instance is a Pod with a Hand started in it by exec.
type instance struct {
	cluster  *cluster
	pod      *corev1.Pod // as it was when it ran
	attested bool

	stdin  *io.PipeWriter
	stdout *io.PipeReader
	stderr process.Tail
	hangUp context.CancelFunc
	seen   watched

	done chan struct{}
	err  error // of the exec; read once done is closed

	ended sync.Mutex
	why   *sandbox.EndedError
}

// firstRead tells when something is read for the first time: the exec's streams are
// there then, and not before.
type firstRead struct {
	io.Reader
	once sync.Once
	c    chan struct{}
}

func (f *firstRead) Read(p []byte) (int, error) {
	f.once.Do(func() { close(f.c) })
	return f.Reader.Read(p)
}

// speak starts a Hand in a Pod that runs.
func (c *cluster) speak(ctx context.Context, pod *corev1.Pod, o *Options) (*instance, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	// The exec outlives the call that asked for it.
	life, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	i := &instance{
		cluster: c, pod: pod, attested: o.NetworkPolicyAttested,
		stdin: inW, stdout: outR, hangUp: hangUp, done: make(chan struct{}),
	}
	watching, stopWatching := context.WithCancel(life)
	i.seen.start(watching, stopWatching, c, pod)
	begun := &firstRead{Reader: inR, c: make(chan struct{})}
	go func() {
		i.err = c.exec.run(life, c.namespace, pod.Name, mainContainer, []string{sandbox.HandPath, "serve"},
			streams{stdin: begun, stdout: outW, stderr: &i.stderr})
		_ = outW.Close()
		_ = inR.CloseWithError(io.ErrClosedPipe)
		close(i.done)
	}()
	select {
	case <-begun.c:
		return i, nil
	case <-i.done:
		err := i.err
		if !refused(err) {
			err = i.Ended(ctx)
		}
		i.abandon()
		return nil, c.refusal("no Hand can be started in Pod "+pod.Name, err)
	case <-ctx.Done():
		i.abandon()
		return nil, c.refusal("no Hand can be started in Pod "+pod.Name, ctx.Err())
	}
}

// abandon ends the exec, and returns once nothing of it is left on this side.
func (i *instance) abandon() {
	i.hangUp()
	_ = i.stdin.Close()
	_ = i.stdout.Close()
	<-i.done
	i.seen.stop()
}

func (i *instance) Channel() io.ReadWriteCloser { return channel{i} }

type channel struct{ *instance }

func (c channel) Read(p []byte) (int, error)  { return c.stdout.Read(p) }
func (c channel) Write(p []byte) (int, error) { return c.stdin.Write(p) }
func (c channel) Close() error                { return c.stdin.Close() }

func (i *instance) Done() <-chan struct{} { return i.done }

func (i *instance) Ended(ctx context.Context) error {
	select {
	case <-i.done:
	default:
		return nil
	}
	i.ended.Lock()
	defer i.ended.Unlock()
	if i.why != nil {
		return i.why
	}
	why := i.whyEnded(ctx)
	if said := i.stderr.String(); said != "" {
		why.What += "; it said: " + said
	}
	if ctx.Err() == nil { // an answer, not a lack of time
		i.why = why
	}
	return why
}

func (i *instance) Stop(ctx context.Context) error {
	i.abandon()
	err := i.cluster.remove(ctx, i.pod.Name, func(pod *corev1.Pod) bool { return pod.UID == i.pod.UID })
	if err != nil {
		return fmt.Errorf("sandbox tier %s: %w", sandbox.TierKube, err)
	}
	return nil
}
