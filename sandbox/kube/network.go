package kube

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// policyName is the NetworkPolicy that all hosts of a namespace share.
const policyName = "awaken-no-network"

// silence is the policy: nothing in, nothing out, for each Pod that has no network of
// the host's choice. What such a Pod may reach goes over its channel.
func silence() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: labelNetwork, Operator: metav1.LabelSelectorOpIn,
				Values: []string{string(sandbox.NetworkNone), string(sandbox.NetworkAllowlist)},
			}}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// ensureSilence makes the policy where it is not there. It is asked for before each
// Pod: somebody may have removed it.
func (c *cluster) ensureSilence(ctx context.Context) error {
	want := silence()
	policies := c.client.NetworkingV1().NetworkPolicies(c.namespace)
	have, err := policies.Get(ctx, policyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = policies.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			have, err = policies.Get(ctx, policyName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return c.refusal("the NetworkPolicy "+policyName+" cannot be had, and without it a sandbox would have the network", err)
	}
	if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonUnmet,
			What:   "the NetworkPolicy " + policyName + " in namespace " + c.namespace + " is not the host's: somebody changed what it selects or allows",
			Remedy: "delete it: the host makes it again",
		}
	}
	return nil
}
