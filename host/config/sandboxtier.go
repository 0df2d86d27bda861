package config

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// SandboxNamespace is [sandbox.namespace].
type SandboxNamespace struct {
	Program string   // bubblewrap, or sandbox-exec on macOS; empty: as PATH finds it
	Folders []string // of this machine, absolute: what the read-only root is built from; nil: the tier's own list
	User    int      // user and group id of sandboxes while the host runs as root; default 65534
	Cgroup  string   // of cgroup v2, absolute: where those of sandboxes are made; empty: one is looked for
}

// SandboxEngine is [sandbox.docker] or [sandbox.podman].
type SandboxEngine struct {
	Command []string // the program, with options that go before its subcommand; default the tier's name
	Pull    bool     // fetch an image that is not there; default false
}

// SandboxKube is [sandbox.k8s].
type SandboxKube struct {
	Kubeconfig            string // file; empty: that of the Pod that the host runs in
	Context               string // of Kubeconfig; empty: its current one
	Namespace             string // empty: that of the context
	HandImage             string // holds the Hand, pinned: "name@sha256:…"; empty: sandbox.image has it at /awaken/hand
	PullPolicy            string // "IfNotPresent" (default), "Always" or "Never"
	PullSecrets           []string
	RuntimeClass          string
	NodeSelector          map[string]string
	Tolerations           []SandboxToleration
	NetworkPolicyAttested bool          // the operator vouches that this cluster enforces NetworkPolicy
	StartTimeout          time.Duration // until a Pod runs; default 2m
	Lifetime              time.Duration // the cluster ends Pods that are older, whatever becomes of the host, and their files with them; default 0s: never
}

// SandboxToleration is one [[sandbox.k8s.toleration]]: it lets Pods onto nodes with a
// taint.
type SandboxToleration struct {
	Key    string // empty: every taint
	Value  string // empty: whatever the value is
	Effect string // empty: every effect
}

const defaultUser = 65534 // nobody

// joinProgram resolves a program: a bare name is looked for in PATH.
func (c *Config) joinProgram(name string) string {
	if !strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return c.join(name)
}

func defaultKube() SandboxKube {
	return SandboxKube{PullPolicy: "IfNotPresent", StartTimeout: 2 * time.Minute}
}

func (c *Config) decodeTiers(sandbox *table) {
	s := &c.Sandbox
	ns := sandbox.section("namespace")
	ns.text("program", &s.Namespace.Program)
	ns.texts("folders", &s.Namespace.Folders)
	ns.integer("user", &s.Namespace.User)
	ns.text("cgroup", &s.Namespace.Cgroup)
	s.Namespace.Program = c.joinProgram(s.Namespace.Program)
	for _, e := range []struct {
		name string
		to   *SandboxEngine
	}{{"docker", &s.Docker}, {"podman", &s.Podman}} {
		t := sandbox.section(e.name)
		t.texts("command", &e.to.Command)
		t.flag("pull", &e.to.Pull)
	}
	t, k := sandbox.section("k8s"), &s.Kube
	t.text("kubeconfig", &k.Kubeconfig)
	k.Kubeconfig = c.join(k.Kubeconfig)
	t.text("context", &k.Context)
	t.text("namespace", &k.Namespace)
	t.text("hand_image", &k.HandImage)
	t.text("pull_policy", &k.PullPolicy)
	t.texts("pull_secrets", &k.PullSecrets)
	t.text("runtime_class", &k.RuntimeClass)
	selector := t.section("node_selector")
	for _, label := range selector.names() {
		var v string
		selector.text(label, &v)
		put(&k.NodeSelector, label, v)
	}
	t.flag("network_policy_attested", &k.NetworkPolicyAttested)
	t.duration("start_timeout", &k.StartTimeout)
	t.duration("lifetime", &k.Lifetime)
	for _, taint := range t.list("toleration", "start each toleration with [[sandbox.k8s.toleration]]") {
		var to SandboxToleration
		taint.text("key", &to.Key)
		taint.text("value", &to.Value)
		taint.text("effect", &to.Effect)
		k.Tolerations = append(k.Tolerations, to)
	}
}

func (v *validator) tiers(s *Sandbox) {
	for i, f := range s.Namespace.Folders {
		key := element("sandbox.namespace.folders", i)
		if !filepath.IsAbs(f) || filepath.Clean(f) != f || f == "/" || strings.ContainsRune(f, 0) {
			v.bad(key, fmt.Sprintf("%q is not a folder that a root can be built from", clip(f)), `write an absolute path without "..", such as "/usr"`)
		}
	}
	if s.Namespace.Folders != nil && len(s.Namespace.Folders) == 0 {
		v.bad("sandbox.namespace.folders", "is empty, so no program would be there", `name folders such as "/usr", or leave it out`)
	}
	if s.Namespace.Program != "" {
		v.path("sandbox.namespace.program", s.Namespace.Program)
	}
	v.between("sandbox.namespace.user", s.Namespace.User, 1, math.MaxInt32) // 0 is root
	if g := s.Namespace.Cgroup; g != "" && (!filepath.IsAbs(g) || filepath.Clean(g) != g || strings.ContainsRune(g, 0)) {
		v.bad("sandbox.namespace.cgroup", fmt.Sprintf("%q is not the folder of a cgroup", clip(g)), `write an absolute path such as "/sys/fs/cgroup/awaken"`)
	}
	v.engine("sandbox.docker.command", s.Docker.Command)
	v.engine("sandbox.podman.command", s.Podman.Command)
	k := &s.Kube
	if k.Kubeconfig != "" {
		v.path("sandbox.k8s.kubeconfig", k.Kubeconfig)
	}
	if k.HandImage != "" {
		v.pinned("sandbox.k8s.hand_image", k.HandImage)
	}
	for key, name := range map[string]string{"namespace": k.Namespace, "runtime_class": k.RuntimeClass} {
		v.kubeName(child("sandbox.k8s", key), name)
	}
	for i, name := range k.PullSecrets {
		if name == "" {
			v.bad(element("sandbox.k8s.pull_secrets", i), "is empty", "name a secret of the namespace")
			continue
		}
		v.kubeName(element("sandbox.k8s.pull_secrets", i), name)
	}
	v.oneOf("sandbox.k8s.pull_policy", k.PullPolicy, []string{"IfNotPresent", "Always", "Never"})
	for i, to := range k.Tolerations {
		if to.Effect != "" {
			v.oneOf(child(element("sandbox.k8s.toleration", i), "effect"), to.Effect, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"})
		}
	}
	v.within("sandbox.k8s.start_timeout", k.StartTimeout, time.Second, time.Hour)
	if k.Lifetime != 0 {
		v.within("sandbox.k8s.lifetime", k.Lifetime, time.Minute, 365*day)
	}
}

// engine checks a command that is run as it stands, without a shell.
func (v *validator) engine(key string, command []string) {
	if len(command) == 0 || command[0] == "" {
		v.bad(key, "names no program", `write it as ["docker"], or leave it out`)
	}
	for i, a := range command {
		if strings.ContainsRune(a, 0) {
			v.bad(element(key, i), "has a zero byte", "correct it")
		}
	}
}

func (v *validator) kubeName(key, name string) {
	if name == "" {
		return
	}
	if len(name) > 253 || !made(name, lower+decimal+"-.") || !made(name[:1], lower+decimal) || !made(name[len(name)-1:], lower+decimal) {
		v.bad(key, fmt.Sprintf("%q is not a name in Kubernetes", clip(name)), "write lower case letters, digits, - and .")
	}
}

func (e *effective) tiers(s *Sandbox) {
	e.add("sandbox.namespace.program", s.Namespace.Program)
	e.add("sandbox.namespace.folders", s.Namespace.Folders)
	e.add("sandbox.namespace.user", s.Namespace.User)
	e.add("sandbox.namespace.cgroup", s.Namespace.Cgroup)
	for _, t := range []struct {
		name string
		of   *SandboxEngine
	}{{sandbox.TierDocker, &s.Docker}, {sandbox.TierPodman, &s.Podman}} {
		key := child("sandbox", t.name)
		e.add(child(key, "command"), t.of.Command)
		e.add(child(key, "pull"), t.of.Pull)
	}
	k := &s.Kube
	e.add("sandbox.k8s.kubeconfig", k.Kubeconfig)
	e.add("sandbox.k8s.context", k.Context)
	e.add("sandbox.k8s.namespace", k.Namespace)
	e.add("sandbox.k8s.hand_image", k.HandImage)
	e.add("sandbox.k8s.pull_policy", k.PullPolicy)
	e.add("sandbox.k8s.pull_secrets", k.PullSecrets)
	e.add("sandbox.k8s.runtime_class", k.RuntimeClass)
	for _, label := range sorted(k.NodeSelector) {
		e.add(child("sandbox.k8s.node_selector", label), k.NodeSelector[label])
	}
	e.add("sandbox.k8s.network_policy_attested", k.NetworkPolicyAttested)
	e.add("sandbox.k8s.start_timeout", k.StartTimeout)
	e.add("sandbox.k8s.lifetime", k.Lifetime)
	for i, to := range k.Tolerations {
		key := element("sandbox.k8s.toleration", i)
		e.add(child(key, "key"), to.Key)
		e.add(child(key, "value"), to.Value)
		e.add(child(key, "effect"), to.Effect)
	}
}
