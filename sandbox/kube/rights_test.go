package kube_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// manifest is what docs/kubernetes/rbac.yaml holds.
func manifest(t *testing.T) (role rbacv1.Role, binding rbacv1.RoleBinding) {
	t.Helper()
	file, err := os.Open("../../docs/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for _, into := range []any{&corev1.Namespace{}, &corev1.ServiceAccount{}, &role, &binding} {
		if err := documents.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if err := documents.Decode(&metav1.PartialObjectMetadata{}); !errors.Is(err, io.EOF) {
		t.Fatalf("there is more in it: %v", err)
	}
	return role, binding
}

// give applies the manifest for a user of the test's own, and returns how to change
// its rights.
func (r *real) give(t *testing.T, user string) (rules []rbacv1.PolicyRule, change func([]rbacv1.PolicyRule)) {
	t.Helper()
	role, binding := manifest(t)
	for _, o := range []metav1.Object{&role, &binding} {
		o.SetName(user)
		o.SetNamespace(r.Namespace)
	}
	binding.RoleRef.Name = user
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	roles, bindings := r.admin.RbacV1().Roles(r.Namespace), r.admin.RbacV1().RoleBindings(r.Namespace)
	made, err := roles.Create(t.Context(), &role, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(context.WithoutCancel(t.Context()), user, metav1.DeleteOptions{}) })
	if _, err := bindings.Create(t.Context(), &binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bindings.Delete(context.WithoutCancel(t.Context()), user, metav1.DeleteOptions{}) })
	return role.Rules, func(rules []rbacv1.PolicyRule) {
		t.Helper()
		made.Rules = rules
		if made, err = roles.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// without takes one verb away.
func without(rules []rbacv1.PolicyRule, resource, verb string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
		}
		if len(rule.Verbs) > 0 {
			out = append(out, rule)
		}
	}
	return out
}

// eventually waits until the cluster's authorizer has taken a change in.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func TestRightsOfTheManifest(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	spec := newSpec()
	user := "rights-" + spec.ID
	o := c.options()
	o.Kubeconfig = sandboxtest.Engines(t).Kubeconfig(t, user)

	err := kube.New(o).Check(t.Context())
	if sandbox.ReasonOf(err) != sandbox.ReasonDenied || !strings.Contains(err.Error(), "delete pods") || !strings.Contains(err.Error(), "rbac.yaml") {
		t.Errorf("without any right: %v", err)
	}
	rules, change := c.give(t, user)
	tier := kube.New(o)
	eventually(t, func() error { return tier.Check(t.Context()) })
	inst := start(t, tier, spec)
	greet(t, inst, spec)
	if left, err := tier.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 1 {
		t.Errorf("leftovers: %v, %v", left, err)
	}
	stop(t, inst)

	// What is taken away later is refused in the cluster's own words, and leaves nothing.
	change(without(without(rules, "pods/exec", "create"), "pods/exec", "get"))
	eventually(t, func() error {
		if kube.New(o).Check(t.Context()) == nil {
			return errors.New("exec is still allowed")
		}
		return nil
	})
	spec = newSpec()
	if inst, err = tier.Start(t.Context(), spec); err == nil {
		stop(t, inst)
		t.Fatal("started without the right to exec")
	}
	if sandbox.ReasonOf(err) != sandbox.ReasonDenied || !strings.Contains(err.Error(), user) || !strings.Contains(err.Error(), "pods/exec") {
		t.Errorf("without exec: %v", err)
	}
	if left, err := tier.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) > 0 {
		t.Errorf("the Pod that could not be spoken to is left: %v, %v", left, err)
	}
}

func TestEachRightMissing(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	user := "verbs-" + newSpec().ID
	o := c.options()
	o.Kubeconfig = sandboxtest.Engines(t).Kubeconfig(t, user)
	rules, change := c.give(t, user)
	for _, r := range []struct{ verb, resource, named string }{
		{"create", "pods", "create pods"}, {"get", "pods", "get pods"}, {"list", "pods", "list pods"},
		{"watch", "pods", "watch pods"}, {"delete", "pods", "delete pods"}, {"create", "pods/exec", "create pods/exec"},
		{"get", "networkpolicies", "get networkpolicies.networking.k8s.io"},
		{"create", "networkpolicies", "create networkpolicies.networking.k8s.io"},
	} {
		change(without(rules, r.resource, r.verb))
		want := "in namespace " + c.Namespace + ": " + r.named + "; "
		eventually(t, func() error {
			err := kube.New(o).Check(t.Context())
			if err == nil || sandbox.ReasonOf(err) != sandbox.ReasonDenied || !strings.Contains(err.Error(), want) {
				return errors.Join(errors.New("want "+want), err)
			}
			return nil
		})
	}
}
