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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// cleanupTimeout bounds the removal of a Pod that did not start.
const cleanupTimeout = 30 * time.Second

// Tier starts Pods. It is safe for concurrent use.
type Tier struct {
	options Options

	mu      sync.Mutex
	cluster *cluster // nil: not connected yet
}

var (
	_ sandbox.Attacher = (*Tier)(nil)
	_ sandbox.Carrier  = (*Tier)(nil)
)

// cluster is a connection and the namespace that everything happens in.
type cluster struct {
	client    kubernetes.Interface
	namespace string
	exec      executor

	mu     sync.Mutex
	rights bool // all of them were there once
}

// New returns the tier. It connects when it is first used, so that a cluster that is
// not there is an error of what needs it.
func New(o Options) *Tier { return &Tier{options: o} }

// Name is sandbox.TierKube.
func (t *Tier) Name() string { return sandbox.TierKube }

// Carries is true: a Pod has no folders of this machine.
func (t *Tier) Carries() bool { return true }

// connected returns the settled options and the connection. One that failed is tried
// again the next time.
func (t *Tier) connected() (*cluster, *Options, error) {
	o, err := t.options.settled()
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cluster == nil {
		if t.cluster, err = connect(&o); err != nil {
			return nil, nil, err
		}
	}
	return t.cluster, &o, nil
}

// Check asks the cluster whether it knows the account, whether that may do all that is
// needed, and whether the Pod of an Environment would be let in. Whether its image can
// be had is known to a node alone, and only once a Pod is there.
func (t *Tier) Check(ctx context.Context) error {
	c, o, err := t.connected()
	if err != nil {
		return err
	}
	if err := c.checkRights(ctx); err != nil {
		return err
	}
	spec := &sandbox.Spec{ID: "check", Network: sandbox.NetworkNone}
	_, err = c.client.CoreV1().Pods(c.namespace).Create(ctx, newPod(spec, o), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return c.refusal("the Pod of a sandbox would be refused", err)
	}
	return nil
}

// Start implements sandbox.Tier.
func (t *Tier) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	c, o, err := t.connected()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	// What cannot be removed again must not be made.
	if err := c.checkRights(ctx); err != nil {
		return nil, err
	}
	if spec.Network != sandbox.NetworkHost {
		if err := c.ensureSilence(ctx); err != nil {
			return nil, err
		}
	}
	pod, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, newPod(spec, o), metav1.CreateOptions{})
	if err != nil {
		refused := c.refusal("the Pod "+podName(spec.ID)+" is refused", err)
		if unreachable(err) { // it may be there all the same
			return nil, c.discard(ctx, refused, podName(spec.ID), spec.Labels)
		}
		return nil, refused
	}
	inst, err := c.begin(ctx, pod, o)
	if err != nil {
		return nil, c.discard(ctx, err, pod.Name, spec.Labels)
	}
	return inst, nil
}

// begin waits until the Pod runs what it is to run, and starts the Hand that speaks.
func (c *cluster) begin(ctx context.Context, made *corev1.Pod, o *Options) (*instance, error) {
	pod, err := c.awaitRunning(ctx, made)
	if err != nil {
		return nil, err
	}
	if err := c.checkImages(pod, made); err != nil {
		return nil, err
	}
	return c.speak(ctx, pod, o)
}

// discard removes the Pod that cause kept from starting, and says so where it cannot.
func (c *cluster) discard(ctx context.Context, cause error, name string, l sandbox.Labels) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := c.remove(ctx, name, func(pod *corev1.Pod) bool { return labelsOf(pod) == l })
	if err == nil {
		return cause
	}
	var u *sandbox.UnavailableError
	if !errors.As(cause, &u) {
		u = &sandbox.UnavailableError{Tier: sandbox.TierKube, Reason: sandbox.ReasonStart, What: "the Pod " + name + " did not start", Err: cause}
	}
	left := *u
	left.What += fmt.Sprintf(" (and may be left in namespace %s: %v)", c.namespace, err)
	return &left
}

// Leftovers implements sandbox.Tier. The ID is the Pod's name.
func (t *Tier) Leftovers(ctx context.Context, host string) ([]sandbox.Leftover, error) {
	c, _, err := t.connected()
	if err != nil {
		return nil, err
	}
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{sandbox.LabelHost: labelValue(host)}).String(),
	})
	if err != nil {
		return nil, c.refusal("the Pods of earlier hosts cannot be listed", err)
	}
	var out []sandbox.Leftover
	for i := range list.Items {
		pod := &list.Items[i]
		// A copy of a Pod, made to look into what happened, has its labels and another name.
		if l := labelsOf(pod); l.Host == host && pod.Name == podName(l.Environment) {
			out = append(out, sandbox.Leftover{Tier: sandbox.TierKube, ID: pod.Name, Labels: l, Created: pod.CreationTimestamp.Time})
		}
	}
	return out, nil
}

// Remove implements sandbox.Tier. A Pod of the same name whose labels are others is
// left alone.
func (t *Tier) Remove(ctx context.Context, l sandbox.Leftover) error {
	c, _, err := t.connected()
	if err != nil {
		return err
	}
	if err := c.remove(ctx, l.ID, func(pod *corev1.Pod) bool { return labelsOf(pod) == l.Labels }); err != nil {
		return fmt.Errorf("sandbox tier %s: %w", sandbox.TierKube, err)
	}
	return nil
}

// Attach implements sandbox.Attacher. Stop of the Instance removes the Pod.
func (t *Tier) Attach(ctx context.Context, l sandbox.Leftover) (sandbox.Instance, error) {
	c, o, err := t.connected()
	if err != nil {
		return nil, err
	}
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(ctx, l.ID, metav1.GetOptions{})
	if err != nil {
		return nil, c.refusal("the Pod "+l.ID+" of an earlier host cannot be read", err)
	}
	if labelsOf(pod) != l.Labels {
		return nil, &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonStart, What: "the Pod " + l.ID + " is another one by now",
			Remedy: "list what is left again",
		}
	}
	if !running(pod) {
		return nil, &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonStart, What: "the Pod " + l.ID + " does not run any more", Err: endOf(pod, nil),
			Remedy: "nothing can be read of it: remove it",
		}
	}
	return c.speak(ctx, pod, o)
}
