package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// restConfig reads how the cluster is reached. What the process's environment says of
// Kubernetes or of proxies counts for nothing, except for the address and the account
// that a Pod is given.
func restConfig(o *Options) (config *rest.Config, namespace string, err error) {
	if o.Kubeconfig == "" {
		return inCluster(o)
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.Context})
	namespace, _, err = loaded.Namespace()
	if err == nil {
		config, err = loaded.ClientConfig()
	}
	if err != nil {
		return nil, "", &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonTool, What: "the configuration " + o.Kubeconfig + " cannot be used", Err: err,
			Remedy: "name a kubeconfig file in [sandbox.k8s].kubeconfig, and a context of it in [sandbox.k8s].context",
		}
	}
	if o.Namespace != "" {
		namespace = o.Namespace
	}
	return settle(config, o.Logger), namespace, nil
}

func inCluster(o *Options) (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, "", &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonTool, What: "no cluster is named, and this host does not run in one",
			Remedy: "name a kubeconfig file in [sandbox.k8s].kubeconfig",
		}
	}
	if err != nil {
		return nil, "", &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonTool, What: "this Pod's service account cannot be used", Err: err,
			Remedy: "let the host's Pod mount its service account's token, or name a kubeconfig file in [sandbox.k8s].kubeconfig",
		}
	}
	if o.Namespace == "" {
		return nil, "", &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonTool, What: "no namespace is named for the Pods",
			Remedy: "name one in [sandbox.k8s].namespace; one of its own is best",
		}
	}
	return settle(config, o.Logger), o.Namespace, nil
}

// settle gives the configuration what does not depend on where it came from.
func settle(config *rest.Config, logger *slog.Logger) *rest.Config {
	if config.Proxy == nil {
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	config.UserAgent = "awaken-host"
	// The client's own brake, 5 requests in a second, would hold up the twentieth
	// Environment; the server has a better one.
	config.QPS = -1
	config.WarningHandler = warnings{logger}
	return config
}

// warnings are what the server says besides its answers.
type warnings struct{ logger *slog.Logger }

func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == http.StatusBadRequest || text == "" {
		return
	}
	w.logger.Warn("Kubernetes warns", "text", text)
}

func connect(o *Options) (*cluster, error) {
	demoteClient(o.Logger)
	config, namespace, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	if namespace = strings.TrimSpace(namespace); namespace == "" {
		namespace = "default"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &sandbox.UnavailableError{
			Tier: sandbox.TierKube, Reason: sandbox.ReasonTool, Err: err,
			What: fmt.Sprintf("the cluster %s cannot be spoken to with this configuration", config.Host), Remedy: "check the file that [sandbox.k8s].kubeconfig names",
		}
	}
	return &cluster{client: client, namespace: namespace, exec: remote{config: config, core: client.CoreV1().RESTClient()}}, nil
}
