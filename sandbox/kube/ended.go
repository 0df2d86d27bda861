package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/exec"

	"github.com/awaken-agents/awaken-host/sandbox"
)

const (
	eventsTimeout = 5 * time.Second
	// A node tells the cluster what became of a Pod a moment after the connection to it
	// broke.
	settleTime = 3 * time.Second
	exitKilled = 128 + 9
)

func latest(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// terminated is what is known of a container that ended.
func terminated(e *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("exit status %d", e.ExitCode)
	if e.Reason != "" {
		s = e.Reason + ", " + s
	}
	if m := strings.TrimSpace(e.Message); m != "" {
		s += ": " + m
	}
	return s
}

// endOf says why a Pod ended, or the Hand of one that still runs. broke is what its exec
// ended with, nil for none.
func endOf(pod *corev1.Pod, broke error) *sandbox.EndedError {
	e := &sandbox.EndedError{Tier: sandbox.TierKube}
	for _, s := range append(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses...) {
		if t := s.State.Terminated; t != nil && t.Reason == "OOMKilled" {
			e.Reason, e.What = sandbox.ReasonMemory, "container "+s.Name+" of Pod "+pod.Name+": "+terminated(t)
			return e
		}
	}
	if pod.Status.Reason != "" {
		e.Reason, e.What = sandbox.ReasonKilled, pod.Status.Reason+": "+pod.Status.Message
		switch pod.Status.Reason {
		case "Evicted", "NodeShutdown", "Terminated", "Preempting", "NodeAffinity":
			e.Reason = sandbox.ReasonEvicted
		case "NodeLost":
			e.Reason = sandbox.ReasonLost
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			e.Reason = sandbox.ReasonEvicted
			e.What = strings.TrimPrefix(e.What+"; "+condition.Reason+": "+condition.Message, "; ")
		}
	}
	if e.Reason != "" {
		return e
	}
	if pod.DeletionTimestamp != nil {
		e.Reason, e.What = sandbox.ReasonKilled, "the Pod "+pod.Name+" is being deleted"
		return e
	}
	if s := statusOf(pod.Status.ContainerStatuses, mainContainer); s != nil && s.State.Terminated != nil {
		e.Reason, e.What = sandbox.ReasonExited, "the container of Pod "+pod.Name+": "+terminated(s.State.Terminated)
		if s.State.Terminated.ExitCode == exitKilled {
			e.Reason = sandbox.ReasonKilled
		}
		return e
	}
	return execEnd(pod, broke)
}

// execEnd says why the Hand of a Pod ended that still runs.
func execEnd(pod *corev1.Pod, broke error) *sandbox.EndedError {
	e := &sandbox.EndedError{Tier: sandbox.TierKube, Reason: sandbox.ReasonLost}
	var exit exec.ExitError
	switch {
	case broke == nil:
		// Over SPDY a connection that broke looks like a command that ended well, and a
		// Hand does not end before its host hangs up.
		e.What = "the stream to the Hand in Pod " + pod.Name + ", which still runs, ended without an error: the connection broke, or the Hand was let go"
	case errors.As(broke, &exit) && exit.Exited():
		e.Reason, e.What = sandbox.ReasonExited, fmt.Sprintf("exit status %d", exit.ExitStatus())
		if exit.ExitStatus() == exitKilled {
			e.Reason = sandbox.ReasonKilled
		}
	default:
		e.What, e.Err = "the connection to the Hand in Pod "+pod.Name+", which still runs, broke", broke
	}
	return e
}

// whyEnded asks the cluster. A Pod that seems to run is looked at for a moment: what
// broke the connection may not be known to the cluster yet.
func (i *instance) whyEnded(ctx context.Context) *sandbox.EndedError {
	broke := i.err
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var last *corev1.Pod
	asked, gone := false, false
	err := i.cluster.follow(wait, i.pod.Name, i.pod.UID, func(pod *corev1.Pod) (bool, error) {
		if asked, gone = true, pod == nil; gone {
			return true, nil
		}
		last = pod
		return settled(pod), nil
	})
	switch {
	case gone:
		e := goneEnd(i.seen.last())
		i.blameNode(ctx, e)
		return e
	case asked:
		e := endOf(last, broke)
		if running(last) {
			i.blameMemory(ctx, e)
		} else {
			i.blameNode(ctx, e)
		}
		return e
	case apierrors.IsForbidden(err):
		return &sandbox.EndedError{Tier: sandbox.TierKube, Reason: sandbox.ReasonLost, What: "why cannot be read", Err: err}
	}
	return &sandbox.EndedError{Tier: sandbox.TierKube, Reason: sandbox.ReasonLost, What: "the cluster does not answer", Err: errors.Join(err, broke)}
}

// goneEnd says why a Pod ended that is no more, by how it was last seen.
func goneEnd(last *corev1.Pod) *sandbox.EndedError {
	if last != nil {
		if e := endOf(last, nil); e.Reason == sandbox.ReasonEvicted || e.Reason == sandbox.ReasonMemory {
			return e
		}
	}
	return &sandbox.EndedError{Tier: sandbox.TierKube, Reason: sandbox.ReasonKilled, What: "the Pod was deleted"}
}

// blameMemory finds out whether the kernel killed the Hand for memory while the Pod's
// own process lived on: Kubernetes says that only of a container that has ended.
func (i *instance) blameMemory(ctx context.Context, e *sandbox.EndedError) {
	if e.Reason != sandbox.ReasonKilled {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	var count bytes.Buffer
	err := i.cluster.exec.run(ctx, i.cluster.namespace, i.pod.Name, mainContainer, []string{sandbox.HandPath, "oomkills"},
		streams{stdout: &count, stderr: io.Discard})
	if err != nil {
		e.What += "; whether for memory is not known: " + err.Error()
		return
	}
	if n, err := strconv.ParseUint(strings.TrimSpace(count.String()), 10, 64); err == nil && n > 0 {
		e.Reason = sandbox.ReasonMemory
		e.What += fmt.Sprintf("; the kernel killed %d processes of Pod %s for memory", n, i.pod.Name)
	}
}

// blameNode finds out whether the node threw the Pod out: of one whose container then
// ended well, only an event says so.
func (i *instance) blameNode(ctx context.Context, e *sandbox.EndedError) {
	if e.Reason != sandbox.ReasonExited && e.Reason != sandbox.ReasonKilled {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	list, err := i.cluster.client.CoreV1().Events(i.cluster.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(i.pod.UID), "reason": "Evicted"}.String(),
	})
	if err != nil {
		e.What += "; its events cannot be read: " + err.Error()
		return
	}
	for _, event := range list.Items {
		e.Reason, e.What = sandbox.ReasonEvicted, event.Reason+": "+event.Message
	}
}

// settled says that no more is to come of how a Pod ended: the reason why a node threw
// it out comes after its containers have ended.
func settled(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
