package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/awaken-agents/awaken-host/sandbox"
)

const rightsRemedy = "give the host's account the Role of docs/kubernetes/rbac.yaml in this namespace"

// refusal classifies what the server answered, or that it did not, while doing.
func (c *cluster) refusal(doing string, err error) *sandbox.UnavailableError {
	u := &sandbox.UnavailableError{
		Tier: sandbox.TierKube, Reason: sandbox.ReasonStart, Err: err,
		What: doing + " (namespace " + c.namespace + ")",
	}
	text := err.Error()
	switch {
	case apierrors.IsUnauthorized(err):
		u.Reason, u.Remedy = sandbox.ReasonDenied, "the cluster does not know this account: renew the credentials in the file that [sandbox.k8s].kubeconfig names"
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"):
		u.Reason, u.Transient = sandbox.ReasonDenied, true
		u.Remedy = "raise the namespace's ResourceQuota, or lower [sandbox.limits]"
	case apierrors.IsForbidden(err) && strings.Contains(text, "PodSecurity"):
		u.Reason, u.Remedy = sandbox.ReasonDenied, "the Pods fit the restricted profile: look for what changes them on their way, such as a webhook"
	case apierrors.IsForbidden(err) && strings.Contains(text, "is being terminated"):
		u.Remedy = "name a namespace in [sandbox.k8s].namespace that is not being deleted"
	case apierrors.IsForbidden(err):
		u.Reason, u.Remedy = sandbox.ReasonDenied, rightsRemedy
	case apierrors.IsNotFound(err) && strings.Contains(text, "namespaces"):
		u.Remedy = "create the namespace: the host does not"
	case apierrors.IsAlreadyExists(err):
		u.Remedy = "a Pod of this name is there already: remove it, or wait until it is gone"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		u.Remedy = "check [sandbox.k8s]"
	case errors.Is(err, context.Canceled):
		u.Transient = true
	case unreachable(err):
		u.Reason, u.Transient, u.Remedy = sandbox.ReasonEngine, true, "see whether the cluster's API server runs and can be reached from here"
	}
	return u
}

// unreachable says that the server gave no answer about the request.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		status.Status().Code >= http.StatusInternalServerError
}

// refused says that the server answered, and that it will not.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
