package sandboxtest

import "github.com/awaken-agents/awaken-host/sandbox"

const (
	local  = sandbox.TierLocal
	namesp = sandbox.TierNamespace
	docker = sandbox.TierDocker
	podman = sandbox.TierPodman
	kube   = sandbox.TierKube
)

// args is an attempt whose arguments are known before.
func args(a ...string) func(*escapeWorld) []string {
	return func(*escapeWorld) []string { return a }
}

// everywhere is one outcome in all tiers, but where others are named.
func everywhere(outcome string, others map[string]string) map[string]string {
	m := map[string]string{}
	for _, tier := range sandbox.Tiers {
		m[tier] = outcome
	}
	for tier, o := range others {
		m[tier] = o
	}
	return m
}

var notLocal = map[string]string{local: open}

var escapes = []escape{
	// Files.
	{name: "host file", tries: "reads a file of the host by its path, through `/proc/*/root` and `..`", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"read", w.file} }},
	{name: "host file write", tries: "appends to a file of the host", want: notLocal, after: unchanged,
		attempt: func(w *escapeWorld) []string { return []string{"write", w.file} }},
	{name: "system folders", tries: "makes a file in `/`, `/usr`, `/etc`, `/awaken` and others", want: notLocal, attempt: args("write-system")},
	{name: "links out", tries: "makes symbolic and hard links in the workspace to a file of the host, reads through them, and lets the host read them", want: notLocal, after: notByLinks,
		attempt: func(w *escapeWorld) []string { return []string{"link", w.file, "/etc/shadow"} }},
	{name: "file by handle", tries: "opens a file by its number in the file system (`open_by_handle_at`)", want: notLocal, attempt: args("by-handle")},
	{name: "device node", tries: "makes a device node and opens it", want: notLocal, attempt: args("mknod")},
	{name: "devices", tries: "opens disks, memory and others below `/dev`", want: notLocal, attempt: args("devices")},
	{name: "mount", tries: "mounts a tmpfs, `/etc` and proc, `fsopen`, `chroot`", want: notLocal, attempt: args("mount")},
	{name: "kernel files", tries: "opens `core_pattern`, `sysrq-trigger`, `kcore` and files of cgroups", want: notLocal, attempt: args("kernel-files")},

	// Processes and users.
	{name: "host processes", tries: "looks for a process of the host, with a secret in its arguments, in `/proc`", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"see", w.process} }},
	{name: "signals", tries: "kills a process of the host", want: notLocal, after: stillThere,
		attempt: func(w *escapeWorld) []string { return []string{"signal", w.process} }},
	{name: "environment", tries: "looks for a variable of the host's in its own environment and that of all processes", want: notLocal, attempt: args("environ", canaryEnvironment)},
	{name: "secret of the call", tries: "looks for a secret that its own call has read, in the environment and arguments of all processes", secret: true, attempt: args("environ", secret)},
	{name: "open files", tries: "looks for a file and a folder among its descriptors that whoever started the host had left open", attempt: args("inherited")},
	{name: "ptrace", tries: "traces the Hand, and reads its memory (`ptrace`, `process_vm_readv`)", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"ptrace", w.handPID()} }},
	{name: "memory of the Hand", tries: "opens `mem`, `environ` and `fd` of the Hand, and takes its descriptors (`pidfd_getfd`)", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"memory-of", w.handPID()} }},
	{name: "channel", tries: "writes to the standard output of the Hand, which the host reads, and of process 1", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"channel", w.handPID(), "1"} }},
	{name: "program of the Hand", tries: "writes to the Hand's file, or puts another in its place", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"replace", w.hand()} }},
	{name: "ledger", tries: "forges the record of an operation in the Hand's state folder", want: everywhere(contained, nil), judge: judgeForgery,
		attempt: func(w *escapeWorld) []string {
			return []string{"forge", w.place(sandbox.StateDir), genuineText, forgery}
		}},
	{name: "root", tries: "becomes root: `setresuid`, `setgroups`, `uid_map`", want: notLocal, attempt: args("setuid")},
	{name: "setuid program", tries: "runs a set-user-ID program of the image or the system", want: notLocal, attempt: args("setuid-file")},
	{name: "namespaces", tries: "makes user, mount and network namespaces", want: notLocal, attempt: args("unshare")},
	{name: "capabilities", tries: "holds a capability, or takes one", want: notLocal, attempt: args("capabilities")},
	{name: "terminal", tries: "types into the terminal that the host was started from (`TIOCSTI`)", want: notLocal, attempt: args("terminal")},

	// What stays.
	{name: "daemon", tries: "leaves processes behind, in sessions of their own and deaf to signals, when the call ends", want: everywhere(contained, nil), judge: judgeDaemon,
		attempt: func(w *escapeWorld) []string { return []string{"daemon", w.mark} }},
	{name: "daemon after cancel", tries: "the same, when the call is cancelled", ends: "cancel", want: everywhere(contained, nil), judge: judgeDaemon,
		attempt: func(w *escapeWorld) []string { return []string{"daemon", w.mark} }},
	{name: "daemon after timeout", tries: "the same, when its time is over", ends: "timeout", want: everywhere(contained, nil), judge: judgeDaemon,
		attempt: func(w *escapeWorld) []string { return []string{"daemon", w.mark} }},
	{name: "hares", tries: "leaves processes behind of which each goes on in a child before it can be found", alone: true, want: everywhere(contained, nil), judge: judgeHares,
		attempt: func(w *escapeWorld) []string { return []string{"hares", w.mark} }},

	// The network, with network = "none".
	{name: "network by address", tries: "connects to every address of the host", want: map[string]string{local: open, kube: open},
		attempt: func(w *escapeWorld) []string { return append([]string{"tcp"}, w.addresses()...) }},
	{name: "network by name", tries: "connects to the host by `localhost`, its own name and those that engines give it", want: notLocal,
		attempt: func(w *escapeWorld) []string { return append([]string{"name"}, w.names()...) }},
	{name: "DNS", tries: "sends a question, with data in it, to a name server on the host and to those of `resolv.conf`", want: map[string]string{local: open, kube: open},
		attempt: func(w *escapeWorld) []string { return append([]string{"dns"}, w.addresses()...) }},
	{name: "raw sockets", tries: "opens packet and raw IP sockets", want: notLocal, attempt: args("raw")},
	{name: "proxy", tries: "asks the proxy that commands are told of for tunnels to the host", want: nil,
		attempt: func(w *escapeWorld) []string { return append([]string{"proxy"}, w.addresses()...) }},
	{name: "Unix sockets", tries: "connects to a socket of the host, in its file system and abstract", want: notLocal,
		attempt: func(w *escapeWorld) []string { return []string{"unix", w.socket, w.spoken} }},
	{name: "D-Bus and engines", tries: "connects to D-Bus, X11, Wayland, ssh agents, and the sockets of docker, podman, containerd", want: notLocal, attempt: args("bus")},

	// The kernel.
	{name: "keyring", tries: "reads and writes the kernel's keys", want: map[string]string{local: open, podman: open}, attempt: args("keyctl")},
	{name: "bpf", tries: "makes a map in the kernel", want: notLocal, attempt: args("bpf")},
	{name: "perf", tries: "watches a whole processor (`perf_event_open`)", want: notLocal, attempt: args("perf")},
	{name: "io_uring", tries: "makes a queue of system calls that no filter sees", want: map[string]string{local: open, docker: open, kube: open}, attempt: args("uring")},
	{name: "userfaultfd", tries: "holds up the kernel where it reads memory", want: notLocal, attempt: args("userfault")},
	{name: "modules", tries: "loads code into the kernel", want: notLocal, attempt: args("module")},

	// Exhaustion.
	{name: "flood", tries: "writes 64 MiB of control characters to both streams", want: everywhere(contained, nil), judge: judgeFlood, attempt: args("flood", "64")},
	{name: "fork bomb", tries: "starts 1000 processes, where 128 are allowed", alone: true, want: everywhere(contained, map[string]string{local: open, kube: open}), attempt: args("forks", "1000")},
	{name: "memory bomb", tries: "takes 600 MiB where 256 are allowed", alone: true, want: everywhere(contained, notLocal), attempt: args("memory", "600")},
	{name: "disk", tries: "writes 400 MiB into the workspace, where 32 are allowed", alone: true, want: everywhere(contained, nil), attempt: args("fill", ".", "400")},
	{name: "disk, out of sight", tries: "the same in a folder that nobody may list", alone: true, want: everywhere(contained, nil), attempt: args("fill-closed", "400")},
	{name: "disk, far down", tries: "the same deeper than the name of a file may be long", alone: true, want: everywhere(contained, nil), attempt: args("fill-deep", "400")},
	{name: "disk, without names", tries: "the same in files that it has removed and holds open", alone: true, want: everywhere(contained, nil), attempt: args("fill-removed", "400")},
	{name: "temporary files", tries: "writes 400 MiB into `/tmp`, where 16 are allowed", alone: true, want: everywhere(contained, notLocal),
		attempt: func(w *escapeWorld) []string { return []string{"fill", w.place(sandbox.TempDir), "400"} }},
	{name: "shared memory", tries: "writes 400 MiB into `/dev/shm`", alone: true, want: everywhere(contained, map[string]string{local: open, namesp: denied}), attempt: args("fill", "/dev/shm", "400")},
}
