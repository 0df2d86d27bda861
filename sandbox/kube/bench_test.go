package kube_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/awaken-agents/awaken-host/sandbox/kube"
)

// BenchmarkColdStart is a Pod until its Hand has answered, beside a bare Pod of the same
// image until "true" has ended in it.
func BenchmarkColdStart(b *testing.B) {
	c := cluster(b)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := c.bare(b, newSpec().ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tier", func(b *testing.B) {
		tier := kube.New(c.options())
		for b.Loop() {
			spec := newSpec()
			inst, err := tier.Start(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			greet(b, inst, spec)
			b.StopTimer()
			stop(b, inst)
			b.StartTimer()
		}
	})
}

// bare runs "true" as kubectl run does.
func (r *real) bare(b *testing.B, name string) error {
	pods := r.admin.CoreV1().Pods(r.Namespace)
	w, err := pods.Watch(b.Context(), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	_, err = pods.Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "true", Image: r.Image, Command: []string{"true"}, ImagePullPolicy: corev1.PullIfNotPresent,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	b.Cleanup(func() {
		_ = pods.Delete(context.WithoutCancel(b.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	timeout := time.After(time.Minute)
	for {
		select {
		case event := <-w.ResultChan():
			if pod, is := event.Object.(*corev1.Pod); is && pod.Status.Phase == corev1.PodSucceeded {
				return nil
			}
		case <-timeout:
			return errors.New("the Pod has not ended in a minute")
		}
	}
}
