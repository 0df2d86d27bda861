package namespace

import (
	"os"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// explain turns bwrap's last words into what is wrong and what to do. setting reads a
// setting of the kernel, empty when it has none of that name: for several causes
// bwrap has the same words.
func explain(said string, setting func(string) string) *sandbox.UnavailableError {
	has := func(words ...string) bool {
		for _, w := range words {
			if !strings.Contains(said, w) {
				return false
			}
		}
		return true
	}
	refused := has("Operation not permitted") || has("Permission denied") || has("No permissions to create new namespace")
	namespaces := has("namespace failed") || has("No permissions to create new namespace") || has("uid map") ||
		has("gid map") || has("RTM_NEWADDR") || has("RTM_NEWLINK") || has("No space left on device")
	denied := func(remedy string) *sandbox.UnavailableError {
		return unavailable(sandbox.ReasonDenied, "bubblewrap said: "+said, remedy, nil)
	}
	switch {
	case has("Unknown option"):
		return unavailable(sandbox.ReasonTool, "bubblewrap is too old: it said: "+said, "install version 0.8.0 or later", nil)
	case has("setuid mode") || has("Unexpected capabilities"):
		return unavailable(sandbox.ReasonTool, "bubblewrap is installed with rights of its own: it said: "+said,
			"take them away, such as with: chmod u-s $(command -v bwrap)", nil)
	case namespaces && setting("user/max_user_namespaces") == "0":
		return denied("the kernel allows no user namespaces: sysctl user.max_user_namespaces=10000")
	case namespaces && refused && setting("kernel/unprivileged_userns_clone") == "0":
		return denied("the kernel allows user namespaces to root only: sysctl kernel.unprivileged_userns_clone=1")
	case namespaces && refused && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return denied("AppArmor restricts user namespaces: give bwrap a profile with the rule userns, or: sysctl kernel.apparmor_restrict_unprivileged_userns=0")
	case has("No space left on device") && namespaces:
		return denied("there are too many user namespaces, or they lie too deep in one another: sysctl user.max_user_namespaces, or run the host outside of a sandbox")
	case has("does not support user namespaces"):
		return unavailable(sandbox.ReasonUnsupported, "bubblewrap said: "+said, "use a kernel with user namespaces, or tier docker, podman or k8s", nil)
	case has("mount proc"):
		return denied("a container hides parts of /proc from the host, so no new one can be mounted: run the host outside of a container, or the container with --security-opt systempaths=unconfined, or use tier docker, podman or k8s")
	case namespaces && refused:
		return denied("a container or a security module refuses namespaces to the host: run it outside of a container, or allow them (docker: --security-opt seccomp=unconfined), or use tier docker, podman or k8s")
	case has("mount", "Operation not permitted"):
		return denied("a container or a security module refuses mounts to the host: run it outside of a container, or use tier docker, podman or k8s")
	case has("execvp", "No such file or directory"):
		return unavailable(sandbox.ReasonStart, "the Hand cannot be started: bubblewrap said: "+said,
			"it must be static, or Folders must have what it is linked with", nil)
	case said == "":
		return unavailable(sandbox.ReasonStart, "bubblewrap ended without a word", "", nil)
	default:
		return unavailable(sandbox.ReasonStart, "bubblewrap said: "+said, "", nil)
	}
}

// sysctl reads a setting of the kernel by its path below /proc/sys.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
