package kube

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// right is one thing that the host does in its namespace.
type right struct{ verb, group, resource, subresource string }

func (r right) String() string {
	s := r.resource
	if r.subresource != "" {
		s += "/" + r.subresource
	}
	if r.group != "" {
		s += "." + r.group
	}
	return r.verb + " " + s
}

// rights are what docs/kubernetes/rbac.yaml gives. Reading events is there besides:
// without it messages are shorter.
var rights = []right{
	{verb: "create", resource: "pods"},
	{verb: "get", resource: "pods"},
	{verb: "list", resource: "pods"},
	{verb: "watch", resource: "pods"},
	{verb: "delete", resource: "pods"},
	{verb: "create", resource: "pods", subresource: "exec"},
	{verb: "get", group: "networking.k8s.io", resource: "networkpolicies"},
	{verb: "create", group: "networking.k8s.io", resource: "networkpolicies"},
}

// checkRights asks once whether the account has all of them. What is taken away later
// is refused when it is used.
func (c *cluster) checkRights(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rights {
		return nil
	}
	var missing []string
	for _, r := range rights {
		answer, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource,
			}},
		}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) { // a cluster that does not tell: each request will
			return nil
		}
		if err != nil {
			return c.refusal("the cluster does not say what this account may do", err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonDenied,
			What:   "the account may not, in namespace " + c.namespace + ": " + strings.Join(missing, ", "),
			Remedy: rightsRemedy,
		}
	}
	c.rights = true
	return nil
}
