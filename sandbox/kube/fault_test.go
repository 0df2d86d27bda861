package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/exec"

	"github.com/awaken-agents/awaken-host/sandbox"
)

var podsResource = schema.GroupResource{Resource: "pods"}

func faulty(objects ...runtime.Object) (*cluster, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	return &cluster{client: client, namespace: "ns"}, client
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u-1", Annotations: map[string]string{}}}
}

// TestFollowBrokenWatches: a watch that ends, or says that it is too old, is begun again,
// and nothing that happened meanwhile is missed.
func TestFollowBrokenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := faulty(podNamed("a"))
		watches := 0
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			watches++
			w := watch.NewFake()
			switch watches {
			case 1:
				w.Stop()
			case 2:
				go w.Error(&metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
			default:
				return true, nil, apierrors.NewServiceUnavailable("restarting")
			}
			return true, w, nil
		})
		go func() {
			time.Sleep(time.Second)
			_ = client.CoreV1().Pods("ns").Delete(context.Background(), "a", metav1.DeleteOptions{})
		}()
		err := c.follow(t.Context(), "a", "u-1", func(pod *corev1.Pod) (bool, error) { return pod == nil, nil })
		if err != nil || watches < 3 {
			t.Errorf("%v after %d watches", err, watches)
		}
	})
}

// TestFollowEnds: what stands in the way is said when the time is up, and a refusal at
// once.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range []struct {
			err  error
			want error
			took time.Duration
		}{
			{apierrors.NewForbidden(podsResource, "a", errors.New("no")), nil, 0},
			{errors.New("connection refused"), context.DeadlineExceeded, 5 * time.Second},
		} {
			c, client := faulty(podNamed("a"))
			client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, f.err })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			begin := time.Now()
			err := c.follow(ctx, "a", "u-1", func(*corev1.Pod) (bool, error) { return true, nil })
			cancel()
			if !errors.Is(err, f.err) || f.want != nil && !errors.Is(err, f.want) || time.Since(begin) != f.took {
				t.Errorf("%v: got %v after %v", f.err, err, time.Since(begin))
			}
		}
	})
}

// TestStartAnswerLost: a Pod may be there although the answer to its creation was lost.
func TestStartAnswerLost(t *testing.T) {
	c, client := faulty()
	tier := New(Options{Image: "a@sha256:" + strings.Repeat("0", 64)})
	tier.cluster = c
	spec := &sandbox.Spec{ID: "a", Network: sandbox.NetworkNone, Labels: sandbox.Labels{Host: "h", Owner: "o", Environment: "a"}}
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().DeepCopyObject()
		if err := client.Tracker().Create(corev1.SchemeGroupVersion.WithResource("pods"), pod, "ns"); err != nil {
			return true, nil, err
		}
		return true, nil, errors.New("connection reset by peer")
	})
	_, err := tier.Start(t.Context(), spec)
	if sandbox.ReasonOf(err) != sandbox.ReasonEngine {
		t.Errorf("got %v", err)
	}
	if left, err := tier.Leftovers(t.Context(), "h"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestRemoveLeavesOthers: a Pod of the same name that is another's stays.
func TestRemoveLeavesOthers(t *testing.T) {
	pod := podNamed("awaken-a")
	pod.Annotations[sandbox.LabelHost], pod.Annotations[sandbox.LabelOwner] = "h", "other"
	c, client := faulty(pod)
	tier := New(Options{Image: "a@sha256:" + strings.Repeat("0", 64)})
	tier.cluster = c
	if err := tier.Remove(t.Context(), sandbox.Leftover{ID: "awaken-a", Labels: sandbox.Labels{Host: "h", Owner: "mine"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "awaken-a", metav1.GetOptions{}); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

func TestSilence(t *testing.T) {
	c, client := faulty()
	if err := c.ensureSilence(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Two hosts make it at once: the other was faster.
	gets := 0
	client.PrependReactor("get", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		if gets++; gets == 1 {
			return true, nil, apierrors.NewNotFound(networkingv1.Resource("networkpolicies"), policyName)
		}
		return false, nil, nil
	})
	if err := c.ensureSilence(t.Context()); err != nil || gets != 2 {
		t.Errorf("after %d looks: %v", gets, err)
	}
	changed := silence()
	changed.Namespace = "ns"
	changed.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	if err := client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), changed, "ns"); err != nil {
		t.Fatal(err)
	}
	if err := c.ensureSilence(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonUnmet {
		t.Errorf("a policy that lets everything out: %v", err)
	}
	client.PrependReactor("get", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(networkingv1.Resource("networkpolicies"), policyName, errors.New("no"))
	})
	if err := c.ensureSilence(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonDenied {
		t.Errorf("a policy that cannot be read: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	c, _ := faulty()
	forbidden := func(why string) error { return apierrors.NewForbidden(podsResource, "a", errors.New(why)) }
	for _, r := range []struct {
		err       error
		reason    sandbox.Reason
		transient bool
		remedy    string
	}{
		{forbidden(`User "u" cannot create resource "pods"`), sandbox.ReasonDenied, false, "rbac.yaml"},
		{forbidden("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"), sandbox.ReasonDenied, true, "ResourceQuota"},
		{forbidden(`violates PodSecurity "restricted:latest": hostPath volumes`), sandbox.ReasonDenied, false, "webhook"},
		{apierrors.NewUnauthorized("no"), sandbox.ReasonDenied, false, "credentials"},
		{apierrors.NewAlreadyExists(podsResource, "a"), sandbox.ReasonStart, false, "this name"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"), sandbox.ReasonStart, false, "create the namespace"},
		{apierrors.NewServiceUnavailable("etcd"), sandbox.ReasonEngine, true, "API server"},
		{apierrors.NewTooManyRequests("later", 1), sandbox.ReasonEngine, true, "API server"},
		{errors.New("dial tcp: connection refused"), sandbox.ReasonEngine, true, "API server"},
	} {
		u := c.refusal("asking", r.err)
		if u.Reason != r.reason || u.Transient != r.transient || !strings.Contains(u.Remedy, r.remedy) || !strings.Contains(u.Error(), r.err.Error()) {
			t.Errorf("%v: got %q, transient %v: %v", r.err, u.Reason, u.Transient, u)
		}
	}
}

func TestEndOf(t *testing.T) {
	ended := func(reason string, code int32) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: mainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}},
		}}}
	}
	runs := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: mainContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	deadline := ended("Error", 137)
	deadline.Reason, deadline.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	lost := runs
	lost.Reason = "NodeLost"
	for _, e := range []struct {
		name   string
		status corev1.PodStatus
		broke  error
		reason sandbox.Reason
	}{
		{"out of memory", ended("OOMKilled", 137), nil, sandbox.ReasonMemory},
		{"killed", ended("Error", 137), nil, sandbox.ReasonKilled},
		{"ended", ended("Error", 1), nil, sandbox.ReasonExited},
		{"deadline", deadline, nil, sandbox.ReasonKilled},
		{"node lost", lost, errors.New("broken pipe"), sandbox.ReasonLost},
		{"nothing is said", runs, nil, sandbox.ReasonLost},
		{"the Hand failed", runs, exec.CodeExitError{Err: errors.New("x"), Code: 1}, sandbox.ReasonExited},
		{"the Hand was killed", runs, exec.CodeExitError{Err: errors.New("x"), Code: 137}, sandbox.ReasonKilled},
		{"connection lost", runs, errors.New("broken pipe"), sandbox.ReasonLost},
	} {
		pod := podNamed("a")
		pod.Status = e.status
		if got := endOf(pod, e.broke); got.Reason != e.reason || got.What == "" {
			t.Errorf("%s: %v", e.name, got)
		}
	}
}

func TestCheckImages(t *testing.T) {
	c, _ := faulty()
	want := "sha256:" + strings.Repeat("1", 64)
	made := podNamed("a")
	made.Spec.Containers = []corev1.Container{{Name: mainContainer, Image: "reg/x@" + want}}
	for id, ok := range map[string]bool{
		"reg/x@" + want: true, "docker-pullable://mirror/x@" + want: true, want: true,
		"": false, "reg/x:latest": false, "reg/x@sha256:" + strings.Repeat("2", 64): false,
	} {
		pod := made.DeepCopy()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, ImageID: id}}
		if err := c.checkImages(pod, made); (err == nil) != ok || err != nil && sandbox.ReasonOf(err) != sandbox.ReasonDigest {
			t.Errorf("%q: %v", id, err)
		}
	}
	if c.checkImages(made, made) == nil {
		t.Error("a Pod without a status passed")
	}
}
