package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// again is how long follow waits before it looks again after a watch has ended.
const again = 200 * time.Millisecond

// follow shows each state of a Pod to seen until that is done or fails; nil is shown
// once the Pod with this uid is gone. A watch that ends is begun again, a server that
// does not answer is asked again, until ctx ends: then the error is what stood in the
// way, or ctx's.
func (c *cluster) follow(ctx context.Context, name string, uid types.UID, seen func(*corev1.Pod) (done bool, err error)) error {
	for {
		done, err := c.followOnce(ctx, name, uid, seen)
		if done || err != nil && !unreachable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			if err == nil || errors.Is(err, ctx.Err()) {
				return ctx.Err()
			}
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(again):
		}
	}
}

// followOnce looks once, then watches while the server lets it.
func (c *cluster) followOnce(ctx context.Context, name string, uid types.UID, seen func(*corev1.Pod) (bool, error)) (bool, error) {
	pods := c.client.CoreV1().Pods(c.namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != uid {
		return settleSeen(seen(nil))
	}
	if err != nil {
		return false, err
	}
	if done, err := settleSeen(seen(pod)); done {
		return true, err
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case event, more := <-w.ResultChan():
			if !more {
				return false, nil
			}
			pod, is := event.Object.(*corev1.Pod)
			switch {
			case !is: // an error of the watch, such as that it is too old
				return false, nil
			case pod.UID != uid:
				continue
			case event.Type == watch.Deleted:
				if done, err := settleSeen(seen(pod)); done { // its very last state
					return true, err
				}
				pod = nil
			}
			if done, err := settleSeen(seen(pod)); done {
				return true, err
			}
		}
	}
}

// settleSeen makes an error of seen an end.
func settleSeen(done bool, err error) (bool, error) { return done || err != nil, err }

// remove deletes the Pod of this name if mine says so, and returns once nothing of it
// runs: the API keeps a Pod until its node says that.
func (c *cluster) remove(ctx context.Context, name string, mine func(*corev1.Pod) bool) error {
	pods := c.client.CoreV1().Pods(c.namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !mine(pod) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the Pod %s/%s is left, it cannot be read: %w", c.namespace, name, err)
	}
	err = pods.Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(graceSeconds)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, and perhaps made again by another
		return nil
	}
	if err != nil {
		return fmt.Errorf("the Pod %s/%s is left, it cannot be deleted: %w", c.namespace, name, err)
	}
	err = c.follow(ctx, name, pod.UID, func(pod *corev1.Pod) (bool, error) { return pod == nil, nil })
	if err != nil {
		return fmt.Errorf("the Pod %s/%s is being deleted, its node has not said that nothing of it runs: %w", c.namespace, name, err)
	}
	return nil
}

// watched is a Pod as it was last seen, kept current in the background: what becomes of
// a Pod that is thrown out is in its last moments, and then nowhere.
type watched struct {
	mu      sync.Mutex
	pod     *corev1.Pod
	cancel  context.CancelFunc
	stopped chan struct{}
}

func (w *watched) start(ctx context.Context, cancel context.CancelFunc, c *cluster, pod *corev1.Pod) {
	w.pod, w.cancel, w.stopped = pod, cancel, make(chan struct{})
	go func() {
		defer close(w.stopped)
		// Its errors are those of whoever asks next.
		_ = c.follow(ctx, pod.Name, pod.UID, func(pod *corev1.Pod) (bool, error) {
			if pod == nil {
				return true, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.pod = pod
			return false, nil
		})
	}()
}

func (w *watched) last() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *watched) stop() {
	w.cancel()
	<-w.stopped
}
