package kube

import (
	"log/slog"
	"regexp"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Options say which cluster, and how its Pods look. They are copied.
type Options struct {
	Kubeconfig string // path of a file; empty: the cluster whose Pod this host runs in
	Context    string // of that file; empty: its current one
	Namespace  string // empty: the context's; required where Kubeconfig is empty

	Image     string // name@sha256:…, required
	HandImage string // name@sha256:… of an image with /awaken/hand; empty: Image has it
	// PullPolicy is IfNotPresent (also when empty), Always or Never, for both images.
	PullPolicy  string
	PullSecrets []string // names of secrets in the namespace

	RuntimeClass string // empty: the cluster's default
	NodeSelector map[string]string
	Tolerations  []Toleration

	// NetworkPolicyAttested says that the operator knows that the cluster's network
	// plugin enforces NetworkPolicy. Many clusters accept policies and enforce none.
	NetworkPolicyAttested bool

	StartTimeout time.Duration // until a Pod runs, images pulled; 0: two minutes
	Lifetime     time.Duration // the cluster ends Pods that are older, whatever becomes of the host; 0: never
	Logger       *slog.Logger  // nil: discard
}

// Toleration lets Pods onto nodes with a taint.
type Toleration struct {
	Key    string // empty: every taint
	Value  string // empty: whatever the value is
	Effect string // NoSchedule, PreferNoSchedule or NoExecute; empty: every effect
}

const defaultStartTimeout = 2 * time.Minute

// pinned is a reference that names an image by digest, and nothing else.
var pinned = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$`)

// settled returns a copy with defaults, or says what cannot be.
func (o Options) settled() (Options, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.PullPolicy == "" {
		o.PullPolicy = "IfNotPresent"
	}
	for _, image := range []struct{ what, name, key string }{{"image", o.Image, "[sandbox].image"}, {"image of the Hand", o.HandImage, "[sandbox.k8s].hand_image"}} {
		if image.name == "" && image.what != "image" || pinned.MatchString(image.name) {
			continue
		}
		what := "the " + image.what + " " + image.name + " is not named by digest"
		if image.name == "" {
			what = "no image is named"
		}
		return o, &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonDigest, What: what, Remedy: "write it in " + image.key + " as name@sha256:<64 hex digits>",
		}
	}
	return o, nil
}
