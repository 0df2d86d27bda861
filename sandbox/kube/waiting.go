package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// hopeless are the reasons for which a container waits and that time does not mend.
var hopeless = map[string]struct {
	reason    sandbox.Reason
	remedy    string
	transient bool
}{
	"ErrImagePull":               {sandbox.ReasonImage, "push the image, or name the secrets to pull it with", true},
	"ImagePullBackOff":           {sandbox.ReasonImage, "push the image, or name the secrets to pull it with", true},
	"ErrImageNeverPull":          {sandbox.ReasonImage, "bring the image to the nodes, or let them pull it", false},
	"RegistryUnavailable":        {sandbox.ReasonImage, "see whether the nodes reach the registry", true},
	"SignatureValidationFailed":  {sandbox.ReasonImage, "sign the image as the nodes demand", false},
	"InvalidImageName":           {sandbox.ReasonImage, "write it as name@sha256:<64 hex digits>", false},
	"ImageInspectError":          {sandbox.ReasonImage, "see what the node has of the image", false},
	"CreateContainerConfigError": {sandbox.ReasonStart, "see what the namespace demands of Pods", false},
	"CreateContainerError":       {sandbox.ReasonStart, "see what the node says", false},
	"RunContainerError":          {sandbox.ReasonStart, "see what the node says", false},
	"PostStartHookError":         {sandbox.ReasonStart, "look for what changes Pods on their way, such as a webhook", false},
}

// awaitRunning returns the Pod once the Hand's container runs, or why it never will.
func (c *cluster) awaitRunning(ctx context.Context, made *corev1.Pod) (*corev1.Pod, error) {
	last := made
	err := c.follow(ctx, made.Name, made.UID, func(pod *corev1.Pod) (bool, error) {
		if pod == nil {
			return true, fmt.Errorf("the Pod %s was deleted while it started", made.Name)
		}
		last = pod
		return running(pod), stuck(pod)
	})
	if err == nil {
		return last, nil
	}
	var u *sandbox.UnavailableError
	if errors.As(err, &u) {
		return nil, err
	}
	u = c.refusal("the Pod "+made.Name+" does not start", err)
	u.What += c.standing(ctx, last)
	if errors.Is(err, context.DeadlineExceeded) {
		u.Reason, u.Transient = sandbox.ReasonStart, true
		u.Remedy = "see what the cluster says of it, or give Pods more time to start"
	}
	return nil, u
}

func running(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	s := statusOf(pod.Status.ContainerStatuses, mainContainer)
	return s != nil && s.State.Running != nil
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &statuses[i]
}

// stuck says why a Pod will not run, nil while it may.
func stuck(pod *corev1.Pod) error {
	u := &sandbox.UnavailableError{Tier: sandbox.TierKube, Reason: sandbox.ReasonStart}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			if h, is := hopeless[w.Reason]; is {
				u.Reason, u.Remedy, u.Transient = h.reason, h.remedy, h.transient
				u.What = fmt.Sprintf("container %s of Pod %s: %s: %s", s.Name, pod.Name, w.Reason, w.Message)
				return u
			}
		}
		if e := s.State.Terminated; e != nil && (e.ExitCode != 0 || s.Name == mainContainer) {
			u.What = fmt.Sprintf("container %s of Pod %s ended: %s", s.Name, pod.Name, terminated(e))
			u.Remedy = "see what the image is: it must have " + sandbox.HandPath + " for the nodes' architecture"
			if strings.Contains(e.Message, "no such file") {
				u.Reason, u.Remedy = sandbox.ReasonTool, "the image has no "+sandbox.HandPath+": name an image of the Hand in [sandbox.k8s].hand_image"
				if len(pod.Spec.InitContainers) > 0 {
					u.Remedy = "the image of the Hand has no " + sandbox.HandPath
				}
			}
			return u
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		u.What, u.Err = "the Pod "+pod.Name+" ended while it started", endOf(pod, nil)
		u.Transient = true
		return u
	}
	return nil
}

// standing is where a Pod stands that has not started: what the scheduler says, what
// containers wait for, and the cluster's latest warnings, each in its own words.
func (c *cluster) standing(ctx context.Context, pod *corev1.Pod) string {
	var lines []string
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			lines = append(lines, condition.Reason+": "+condition.Message)
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			lines = append(lines, strings.TrimSuffix("container "+s.Name+" waits: "+w.Reason+": "+w.Message, ": "))
		}
	}
	if pod.Spec.NodeName == "" && len(lines) == 0 {
		lines = append(lines, "no scheduler has looked at it")
	}
	// The caller's time is up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventsTimeout)
	defer cancel()
	return ": " + strings.Join(append(lines, c.warningsOf(ctx, pod)...), "; ")
}

const maxWarnings = 3

// warningsOf are the last warnings among the events of a Pod.
func (c *cluster) warningsOf(ctx context.Context, pod *corev1.Pod) []string {
	list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil {
		return []string{"its events cannot be read: " + err.Error()}
	}
	events := slices.SortedFunc(slices.Values(list.Items), func(a, b corev1.Event) int { return latest(&a).Compare(latest(&b)) })
	var lines []string
	for _, e := range events[max(0, len(events)-maxWarnings):] {
		lines = append(lines, "event "+e.Reason+": "+e.Message)
	}
	return lines
}
