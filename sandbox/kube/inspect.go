package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// checkImages holds what the node says it runs against what was asked for.
func (c *cluster) checkImages(pod, made *corev1.Pod) error {
	for _, want := range slices.Concat(made.Spec.InitContainers, made.Spec.Containers) {
		s := statusOf(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), want.Name)
		runs := ""
		if s != nil {
			runs = s.ImageID
		}
		if digestOf(runs) == "" || digestOf(runs) != digestOf(want.Image) {
			return &sandbox.UnavailableError{
				Tier: sandbox.TierKube, Reason: sandbox.ReasonDigest,
				What:   fmt.Sprintf("container %s of Pod %s runs the image %q, and %s was asked for", want.Name, pod.Name, runs, want.Image),
				Remedy: "pin the digest that the node knows the image by",
			}
		}
	}
	return nil
}

// digestOf is the digest that an image's name ends with.
func digestOf(image string) string {
	at := strings.LastIndex(image, "sha256:")
	if at < 0 {
		return ""
	}
	return image[at:]
}

// Inspect reads the Pod back: what the cluster let in, and what its node says it runs.
// Neither says what the node's kernel and network do.
func (i *instance) Inspect(ctx context.Context) (*sandbox.Effective, error) {
	pod, err := i.cluster.client.CoreV1().Pods(i.cluster.namespace).Get(ctx, i.pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, i.cluster.refusal("the Pod "+i.pod.Name+" cannot be read back", err)
	}
	if pod.UID != i.pod.UID {
		return nil, fmt.Errorf("sandbox tier %s: the Pod %s is another one by now", sandbox.TierKube, pod.Name)
	}
	e := &sandbox.Effective{Tier: sandbox.TierKube, ID: i.cluster.namespace + "/" + pod.Name, Properties: properties(pod, i.attested)}
	if s := statusOf(pod.Status.ContainerStatuses, mainContainer); s != nil {
		e.Image = digestOf(s.ImageID)
	}
	return e, nil
}

// properties are what a Pod as the server has it shows.
func properties(pod *corev1.Pod, attested bool) sandbox.Properties {
	p := sandbox.Properties{
		sandbox.PropertyFilesystem: held(filesystemLack(pod), "a read-only root, and volumes of the Pod's own"),
		sandbox.PropertyProcesses:  held(processesLack(pod), "a process namespace of the container's own"),
		sandbox.PropertyUser:       held(userLack(pod), fmt.Sprintf("user %d, no capabilities, no new privileges", user)),
		sandbox.PropertyNetwork:    network(pod, attested),
		sandbox.PropertyMemory:     memory(pod),
		sandbox.PropertyPIDs: {
			Detail: "the API does not say how many processes a node lets a Pod have",
			Remedy: "set podPidsLimit in the configuration of the nodes' kubelets",
		},
		sandbox.PropertySyscalls: {
			Detail: "the profile RuntimeDefault is asked for; what is in it is the node's matter",
			Remedy: "see what the node's container runtime filters",
		},
	}
	if c := pod.Spec.SecurityContext; c == nil || c.SeccompProfile == nil || c.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined {
		p[sandbox.PropertySyscalls] = held("the Pod has no seccomp profile", "")
	}
	return p
}

const changedRemedy = "look for what changes Pods on their way, such as a webhook"

// held is a finding: enforced, unless something lacks.
func held(lack, detail string) sandbox.Finding {
	if lack != "" {
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: lack, Remedy: changedRemedy}
	}
	return sandbox.Finding{State: sandbox.Enforced, Detail: detail}
}

func filesystemLack(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil {
			return "the volume " + v.Name + " is not the Pod's own"
		}
	}
	return eachContainer(pod, func(_ string, c *corev1.SecurityContext) string {
		if c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem {
			return "can write its root"
		}
		return ""
	})
}

func processesLack(pod *corev1.Pod) string {
	switch s := pod.Spec; {
	case s.HostPID:
		return "the Pod sees the node's processes"
	case s.HostIPC:
		return "the Pod shares the node's IPC namespace"
	case s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && len(s.Containers) > 1:
		return "the Pod's containers see each other's processes"
	}
	return ""
}

func userLack(pod *corev1.Pod) string {
	if c := pod.Spec.SecurityContext; c == nil || c.RunAsUser == nil || *c.RunAsUser == 0 {
		return "the Pod may run as root"
	}
	return eachContainer(pod, func(name string, c *corev1.SecurityContext) string {
		switch {
		case c.Privileged != nil && *c.Privileged:
			return "is privileged"
		case c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation:
			return "may gain privileges"
		case c.RunAsUser != nil && *c.RunAsUser == 0:
			return "runs as root"
		case c.Capabilities == nil || !slices.Contains(c.Capabilities.Drop, "ALL"):
			return "keeps capabilities"
		case len(c.Capabilities.Add) > 0:
			return fmt.Sprintf("has the capabilities %v", c.Capabilities.Add)
		}
		return ""
	})
}

// eachContainer is what the first container lacks.
func eachContainer(pod *corev1.Pod, lack func(name string, c *corev1.SecurityContext) string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		what := "has no security context"
		if c.SecurityContext != nil {
			what = lack(c.Name, c.SecurityContext)
		}
		if what != "" {
			return "container " + c.Name + " " + what
		}
	}
	return ""
}

func network(pod *corev1.Pod, attested bool) sandbox.Finding {
	name := sandbox.Network(pod.Labels[labelNetwork])
	switch {
	case pod.Spec.HostNetwork:
		return sandbox.Finding{State: sandbox.NotEnforced, Level: string(sandbox.NetworkHost), Detail: "the Pod has the node's network", Remedy: changedRemedy}
	case name != sandbox.NetworkNone && name != sandbox.NetworkAllowlist:
		return sandbox.Finding{
			State: sandbox.NotEnforced, Level: string(sandbox.NetworkHost), Detail: "no NetworkPolicy of the host's selects the Pod",
			Remedy: `set network = "none"`,
		}
	case attested:
		return sandbox.Finding{
			State: sandbox.Enforced, Level: string(sandbox.NetworkNone),
			Detail: "the NetworkPolicy " + policyName + ", which the operator attests is enforced",
		}
	}
	return sandbox.Finding{
		Detail: "the NetworkPolicy " + policyName + " selects the Pod, and the API does not say whether anything enforces it",
		Remedy: "see that the cluster's network plugin enforces NetworkPolicy, then attest it: [sandbox.k8s].network_policy_attested = true",
	}
}

// memory is enforced where the node says which limit the container runs with.
func memory(pod *corev1.Pod) sandbox.Finding {
	s := statusOf(pod.Status.ContainerStatuses, mainContainer)
	if s == nil || s.Resources == nil || s.Resources.Limits.Memory().IsZero() {
		return sandbox.Finding{Detail: "the node does not say which limit the container runs with", Remedy: "see what the node's version is: it is told since Kubernetes 1.33"}
	}
	return sandbox.Finding{State: sandbox.Enforced, Detail: s.Resources.Limits.Memory().String() + " of the container"}
}
