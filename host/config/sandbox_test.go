package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

var digest = strings.Repeat("0123456789abcdef", 4)

func TestParseSandbox(t *testing.T) {
	c := parse(t, `
version = 1
[sandbox]
tier = "podman"
provisioning = "eager"
image = "sha256:`+digest+`"
network = "allowlist"
allow_local_fallback = true
warm = 2
max_ready = 4
idle = "90s"
workspace = "remove"
hand_bin = "bin/hand"
engine_args = ["--runtime", "runsc"]
[sandbox.require]
filesystem = "isolated"
[sandbox.limits]
memory_mib = 128
cpus = 0.5
pids = 64
workspace_mib = 10
tmp_mib = 5
open_files = 100
[[sandbox.mount]]
target = "/data"
folder = "data"
mode = "rw"
[[sandbox.mount]]
target = "/data/words.txt"
file = "/usr/share/words"
[[sandbox.mount]]
target = "/model"
archive = "model.tar.gz"
sha256 = "`+strings.ToUpper(digest)+`"
[sandbox.namespace]
folders = ["/usr", "/opt/tools"]
program = "bin/bwrap"
user = 1234
cgroup = "/sys/fs/cgroup/awaken"
[sandbox.docker]
command = ["docker", "--host", "unix:///run/d.sock"]
[sandbox.podman]
pull = true
[sandbox.k8s]
kubeconfig = "kube.config"
context = "prod"
namespace = "tools"
hand_image = "hand@sha256:`+digest+`"
pull_secrets = ["registry"]
runtime_class = "gvisor"
node_selector = { "kubernetes.io/arch" = "amd64" }
network_policy_attested = true
start_timeout = "30s"
lifetime = "2h"
pull_policy = "Never"
[[sandbox.k8s.toleration]]
key = "dedicated"
value = "tools"
effect = "NoSchedule"
`)
	want := Sandbox{
		Tier: "podman", Provisioning: "eager", Image: "sha256:" + digest, Network: "allowlist", AllowLocalFallback: true,
		Warm: 2, MaxReady: 4, Idle: 90 * time.Second, Workspace: "remove", HandBin: "etc/bin/hand", EngineArgs: []string{"--runtime", "runsc"},
		Require: map[string]string{"filesystem": "isolated"},
		Limits:  SandboxLimits{MemoryMiB: 128, CPUs: 0.5, PIDs: 64, WorkspaceMiB: 10, TempMiB: 5, OpenFiles: 100},
		Mounts: []SandboxMount{
			{Target: "/data", Folder: "etc/data", Mode: "rw"},
			{Target: "/data/words.txt", File: "/usr/share/words", Mode: "ro"},
			{Target: "/model", Archive: "etc/model.tar.gz", SHA256: digest, Mode: "ro"},
		},
		Namespace: SandboxNamespace{Program: "etc/bin/bwrap", Folders: []string{"/usr", "/opt/tools"}, User: 1234, Cgroup: "/sys/fs/cgroup/awaken"},
		Docker:    SandboxEngine{Command: []string{"docker", "--host", "unix:///run/d.sock"}},
		Podman:    SandboxEngine{Command: []string{"podman"}, Pull: true},
		Kube: SandboxKube{Kubeconfig: "etc/kube.config", Context: "prod", Namespace: "tools", HandImage: "hand@sha256:" + digest,
			PullSecrets: []string{"registry"}, RuntimeClass: "gvisor", NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"},
			NetworkPolicyAttested: true, StartTimeout: 30 * time.Second, Lifetime: 2 * time.Hour, PullPolicy: "Never",
			Tolerations: []SandboxToleration{{Key: "dedicated", Value: "tools", Effect: "NoSchedule"}}},
	}
	if !reflect.DeepEqual(c.Sandbox, want) {
		t.Errorf("got  %+v\nwant %+v", c.Sandbox, want)
	}
	if !c.Sandbox.Eager() || c.Sandbox.KeepsWorkspace() {
		t.Error("eager, and nothing is kept")
	}
	if got := c.Sandbox.Limits.InstanceLimits(); got != (sandbox.InstanceLimits{MemoryMiB: 128, CPUs: 0.5, PIDs: 64, WorkspaceMiB: 10, TempMiB: 5, OpenFiles: 100}) {
		t.Errorf("%+v", got)
	}
	shown := reveal(c)
	for _, line := range []string{
		`sandbox.limits.cpus = 0.5`, `sandbox.mount[2].archive = "etc/model.tar.gz"`, `sandbox.mount[0].mode = "rw"`,
		`sandbox.docker.command = ["docker", "--host", "unix:///run/d.sock"]`, `sandbox.k8s.node_selector."kubernetes.io/arch" = "amd64"`,
		`sandbox.k8s.network_policy_attested = true`, `sandbox.idle = "1m30s"`,
	} {
		if !strings.Contains(shown, line+"\n") {
			t.Errorf("not shown: %s", line)
		}
	}
	if d := defaultSandbox(); d.Eager() || !d.KeepsWorkspace() || d.Limits.InstanceLimits() != sandbox.DefaultInstanceLimits {
		t.Errorf("%+v", d)
	}
}

func TestSandboxProblems(t *testing.T) {
	mount := func(text string) string { return "[[sandbox.mount]]\n" + text }
	for _, c := range []struct{ name, doc, want string }{
		{"docker without image", "[sandbox]\ntier = \"docker\"", `3: sandbox.tier: "docker" needs an image pinned by its digest, and there is none; add image = "name@sha256:…" to [sandbox]`},
		{"k8s with an empty image", "[sandbox]\ntier = \"k8s\"\nimage = \"\"", `4: sandbox.image: "k8s" needs an image`},
		{"an id is of one machine", "[sandbox]\ntier = \"k8s\"\nimage = \"sha256:" + digest + "\"", `4: sandbox.image: "sha256:`},
		{"tag", "[sandbox]\ntier = \"podman\"\nimage = \"debian:12\"", `4: sandbox.image: "debian:12" is not pinned by a digest`},
		{"options for no engine", "[sandbox]\nengine_args = [\"--runtime\"]", `3: sandbox.engine_args: is for docker and podman, and the tier is "namespace"`},
		{"workspace", "[sandbox]\nworkspace = \"kept\"", `3: sandbox.workspace: "kept" is not known; did you mean "keep"?`},
		{"idle", "[sandbox]\nidle = \"0s\"", `3: sandbox.idle: is 0s; write a duration from 1s to 30d`},
		{"none ready", "[sandbox]\nmax_ready = 0", `3: sandbox.max_ready: is 0; write a number from 1 to 1000`},
		{"more warm than ready", "[sandbox]\nwarm = 17", `3: sandbox.warm: is 17, and at most sandbox.max_ready, 16, run at once`},
		{"property", "[sandbox.require]\nnetwark = \"none\"", `3: sandbox.require.netwark: "netwark" is no property of a sandbox`},
		{"word", "[sandbox.require]\nfilesystem = \"yes\"", `3: sandbox.require.filesystem: filesystem cannot be "yes": write "isolated"`},
		{"cpus", "[sandbox.limits]\ncpus = 0", `3: sandbox.limits.cpus: is 0; write a number from 0.05 to 1024`},
		{"cpus in words", "[sandbox.limits]\ncpus = \"2\"", `3: sandbox.limits.cpus: is a string; write a number without quotes`},
		{"cpus not a number", "[sandbox.limits]\ncpus = nan", `3: sandbox.limits.cpus: is no number`},
		{"memory", "[sandbox.limits]\nmemory_mib = 10", `3: sandbox.limits.memory_mib: is 10; write a number from 64`},
		{"pids", "[sandbox.limits]\npids = 1", `3: sandbox.limits.pids: is 1; write a number from 32`},
		{"unknown limit", "[sandbox.limits]\nmemory = 10", `3: sandbox.limits.memory: is not a known key; remove it; known here are cpus, memory_mib`},
		{"mount without target", mount("folder = \"d\""), `2: sandbox.mount[0]: has no target`},
		{"mount at the root", mount("folder = \"d\"\ntarget = \"/\""), `4: sandbox.mount[0].target: "/" is not a place`},
		{"mount upwards", mount("folder = \"d\"\ntarget = \"/a/../b\""), `4: sandbox.mount[0].target: "/a/../b" is not a place`},
		{"mount over the Hand", mount("folder = \"d\"\ntarget = \"/awaken/x\""), `4: sandbox.mount[0].target: lies in /awaken, which is the sandbox's own`},
		{"mount over the workspace", mount("folder = \"d\"\ntarget = \"/workspace\""), `lies in /workspace`},
		{"mount without source", mount("target = \"/d\""), `2: sandbox.mount[0]: names 0 sources`},
		{"mount of two", mount("target = \"/d\"\nfolder = \"a\"\nfile = \"b\""), `2: sandbox.mount[0]: names 2 sources`},
		{"archive without digest", mount("target = \"/d\"\narchive = \"a.tar\""), `2: sandbox.mount[0]: has an archive and no sha256`},
		{"digest", mount("target = \"/d\"\narchive = \"a.tar\"\nsha256 = \"abc\""), `5: sandbox.mount[0].sha256: "abc" is not a SHA-256`},
		{"digest of a folder", mount("target = \"/d\"\nfolder = \"a\"\nsha256 = \"" + digest + "\""), `5: sandbox.mount[0].sha256: stands beside folder`},
		{"writable file", mount("target = \"/d\"\nfile = \"a\"\nmode = \"rw\""), `5: sandbox.mount[0].mode: is "rw", and only a folder can be written`},
		{"mode", mount("target = \"/d\"\nfolder = \"a\"\nmode = \"wr\""), `5: sandbox.mount[0].mode: "wr" is not known`},
		{"target twice", mount("target = \"/d\"\nfolder = \"a\"\n" + mount("target = \"/d\"\nfolder = \"b\"")), `6: sandbox.mount[1].target: is that of sandbox.mount[0] too`},
		{"no folders", "[sandbox.namespace]\nfolders = []", `3: sandbox.namespace.folders: is empty`},
		{"the whole root", "[sandbox.namespace]\nfolders = [\"/\"]", `3: sandbox.namespace.folders[0]: "/" is not a folder that a root can be built from`},
		{"relative folder", "[sandbox.namespace]\nfolders = [\"usr\"]", `3: sandbox.namespace.folders[0]: "usr" is not a folder`},
		{"root in a sandbox", "[sandbox.namespace]\nuser = 0", `3: sandbox.namespace.user: is 0; write a number from 1`},
		{"relative cgroup", "[sandbox.namespace]\ncgroup = \"awaken\"", `3: sandbox.namespace.cgroup: "awaken" is not the folder of a cgroup`},
		{"no engine", "[sandbox.docker]\ncommand = []", `3: sandbox.docker.command: names no program`},
		{"engine in one word", "[sandbox.podman]\ncommand = \"podman --root x\"", `3: sandbox.podman.command: is a string; write a list of strings`},
		{"hand image", "[sandbox.k8s]\nhand_image = \"hand:1\"", `3: sandbox.k8s.hand_image: "hand:1" is not pinned by a digest`},
		{"namespace", "[sandbox.k8s]\nnamespace = \"My Tools\"", `3: sandbox.k8s.namespace: "My Tools" is not a name in Kubernetes`},
		{"pull secret", "[sandbox.k8s]\npull_secrets = [\"\"]", `3: sandbox.k8s.pull_secrets[0]: is empty`},
		{"pull policy", "[sandbox.k8s]\npull_policy = \"never\"", `3: sandbox.k8s.pull_policy: "never" is not known; did you mean "Never"?`},
		{"toleration", "[[sandbox.k8s.toleration]]\neffect = \"none\"", `3: sandbox.k8s.toleration[0].effect: "none" is not known`},
		{"lifetime", "[sandbox.k8s]\nlifetime = \"1s\"", `3: sandbox.k8s.lifetime: is 1s; write a duration from 1m`},
		{"start timeout", "[sandbox.k8s]\nstart_timeout = \"0s\"", `3: sandbox.k8s.start_timeout: is 0s; write a duration from 1s to 1h`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("host.toml", []byte("version = 1\n"+c.doc+"\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
