package kube

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
)

const (
	user          = 65532 // "nonroot" by convention; no file of an image belongs to it
	mainContainer = "hand"
	copyContainer = "copy-hand"
	handVolume    = "hand"
	graceSeconds  = 1
	// A tool waits for a model most of its life: a whole processor kept free for each
	// Environment would leave nodes idle. The limit is the limit either way.
	idleMilliCPU = 100
	// What the state, the Hand and what Kubernetes keeps of a container may take of the
	// node's disk besides the workspace.
	overheadMiB = 288
	stateMiB    = 160 // a full ledger, one more record, and what it is written to anew
	handMiB     = 96
)

// podName is one of the few that fit all ids of Environments.
func podName(environment string) string { return "awaken-" + environment }

// newPod is the Pod of one Environment.
func newPod(spec *sandbox.Spec, o *Options) *corev1.Pod {
	limits := spec.Limits.WithDefaults()
	volumes, mounts := folders(spec, limits)
	resources := budget(spec, limits)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(spec.ID), Labels: map[string]string{}, Annotations: pairs(spec.Labels)},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(graceSeconds)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ShareProcessNamespace:         new(false),
			NodeSelector:                  maps.Clone(o.NodeSelector),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(mainContainer, o.Image, o, resources, sandbox.HandPath, "wait")},
		},
	}
	for key, value := range pod.Annotations {
		pod.Labels[key] = labelValue(value)
	}
	pod.Labels[sandbox.LabelSession] = labelValue(string(sandbox.RunOf(spec.Labels.Session))) // as people look for it
	pod.Labels[labelNetwork] = string(spec.Network)
	main := &pod.Spec.Containers[0]
	main.Env = environment(spec.Env)
	main.WorkingDir = sandbox.WorkspaceDir

	if o.HandImage != "" && o.HandImage != o.Image {
		volumes = append(volumes, disk(handVolume, handMiB))
		mounts = append([]corev1.VolumeMount{{Name: handVolume, MountPath: sandbox.HandDir, ReadOnly: true}}, mounts...)
		copier := container(copyContainer, o.HandImage, o, resources, sandbox.HandPath, "install", "/hand/hand")
		// The state is mounted here too, so that its place is in the volume before that
		// is mounted read-only.
		copier.VolumeMounts = []corev1.VolumeMount{
			{Name: handVolume, MountPath: "/hand"}, {Name: "state", MountPath: "/hand" + strings.TrimPrefix(sandbox.StateDir, sandbox.HandDir)},
		}
		pod.Spec.InitContainers = []corev1.Container{copier}
	}
	pod.Spec.Volumes, main.VolumeMounts = volumes, mounts

	if spec.Network != sandbox.NetworkHost {
		// Kubernetes wants a server where it is to configure none of the cluster's:
		// nobody listens on this one.
		pod.Spec.DNSPolicy = corev1.DNSNone
		pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
	if o.Lifetime > 0 {
		pod.Spec.ActiveDeadlineSeconds = new(int64(math.Ceil(o.Lifetime.Seconds())))
	}
	if o.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = new(o.RuntimeClass)
	}
	for _, name := range o.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for _, t := range o.Tolerations {
		operator := corev1.TolerationOpEqual
		if t.Key == "" || t.Value == "" {
			operator = corev1.TolerationOpExists
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: operator, Value: t.Value, Effect: corev1.TaintEffect(t.Effect),
		})
	}
	return pod
}

func container(name, image string, o *Options, resources corev1.ResourceRequirements, command ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullPolicy(o.PullPolicy), Command: command, Resources: resources,
		// So that the status of a container that failed has its last words: reading logs
		// needs one right more.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// folders are the places that can be written.
func folders(spec *sandbox.Spec, limits sandbox.InstanceLimits) ([]corev1.Volume, []corev1.VolumeMount) {
	temp := disk("temp", limits.TempMiB)
	// A size on disk is looked at now and then; of memory it is the kernel's own limit.
	temp.EmptyDir.Medium = corev1.StorageMediumMemory
	volumes := []corev1.Volume{disk("workspace", limits.WorkspaceMiB), disk("state", stateMiB), temp}
	mounts := []corev1.VolumeMount{
		{Name: "workspace", MountPath: sandbox.WorkspaceDir},
		{Name: "state", MountPath: sandbox.StateDir},
		{Name: "temp", MountPath: sandbox.TempDir},
	}
	for i, m := range spec.Mounts {
		name := "mount-" + strconv.Itoa(i)
		volumes = append(volumes, disk(name, limits.WorkspaceMiB))
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: m.Target})
	}
	return volumes, mounts
}

func disk(name string, mib int) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: mebibytes(mib)}}}
}

func mebibytes(n int) *resource.Quantity {
	return resource.NewQuantity(int64(n)<<20, resource.BinarySI)
}

// budget asks for all the memory that may be used, so that a node never has to take
// it back.
func budget(spec *sandbox.Spec, limits sandbox.InstanceLimits) corev1.ResourceRequirements {
	memory := *mebibytes(limits.MemoryMiB)
	storage := *mebibytes(limits.WorkspaceMiB*(1+len(spec.Mounts)) + overheadMiB)
	milli := max(1, int64(limits.CPUs*1000))
	return corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: storage,
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI),
		},
		Requests: corev1.ResourceList{
			corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: *mebibytes(overheadMiB),
			corev1.ResourceCPU: *resource.NewMilliQuantity(min(idleMilliCPU, milli), resource.DecimalSI),
		},
	}
}

func environment(env []string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, entry := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(entry, "=")
		// "$(NAME)" would be expanded.
		out = append(out, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")})
	}
	return out
}
