package hand

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// probeSystem reads what the kernel says of this process.
func probeSystem(program string, run func(*exec.Cmd) error) sandbox.Properties {
	root := os.DirFS("/")
	status := procFields(root, "proc/self/status")
	return sandbox.Properties{
		sandbox.PropertyProcesses: probeProcesses(root, os.Getpid()),
		sandbox.PropertyUser:      probeUser(root, status),
		sandbox.PropertyMemory:    probeMemory(root),
		sandbox.PropertyPIDs:      probePIDs(root),
		sandbox.PropertySyscalls:  probeSyscalls(status, func() error { return needless(program, run) }),
	}
}

// procFields are the "Name:\tvalue" lines of a file, nil when it cannot be read.
func procFields(root fs.FS, name string) map[string]string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

// boundaryPrograms are what stands between the Hand and process 1 of a boundary.
var boundaryPrograms = []string{"hand", "awaken-hand", "bwrap", "docker-init", "tini", "catatonit", "pause"}

// probeProcesses tells whose processes are seen. Those of a machine are told by its
// kernel's, or by names; those of a boundary by who their first ancestor is. What is
// neither is unknown.
func probeProcesses(root fs.FS, self int) sandbox.Finding {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return sandbox.Finding{Detail: "/proc cannot be listed: " + err.Error()}
	}
	seen := map[int]procStat{}
	machine := ""
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := fs.ReadFile(root, path.Join("proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		p := parseStat(b)
		seen[pid] = p
		if machineProcess(p.name) {
			machine = fmt.Sprintf("%s (process %d)", p.name, pid)
		}
	}
	if machine != "" {
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: fmt.Sprintf("sees %d processes, among them %s", len(seen), machine),
			Remedy: "use a tier with a PID namespace"}
	}
	for pid := self; pid != 0; {
		p, known := seen[pid]
		if !known || !slices.Contains(boundaryPrograms, p.name) {
			return sandbox.Finding{Detail: fmt.Sprintf("sees %d processes and cannot tell whose process %d is", len(seen), pid)}
		}
		// A process that was started from outside has no parent here.
		if pid, self = p.parent, pid; pid == 0 && self != 1 {
			pid = 1
		}
	}
	return sandbox.Finding{State: sandbox.Enforced, Detail: fmt.Sprintf("sees %d processes, all of the sandbox", len(seen))}
}

// machineProcess reports whether a process belongs to a machine and never to a
// sandbox: the kernel's own, and what starts a machine.
func machineProcess(name string) bool {
	for _, prefix := range []string{"kthreadd", "systemd", "dockerd", "containerd", "kubelet", "sshd", "dbus-daemon", "launchd", "kworker/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func probeUser(root fs.FS, status map[string]string) sandbox.Finding {
	if status == nil {
		return sandbox.Finding{Detail: "/proc/self/status cannot be read"}
	}
	caps := ""
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
		if have := strings.TrimLeft(status[set], "0"); have != "" && caps == "" {
			caps = have
		}
	}
	bounding := strings.TrimLeft(status["CapBnd"], "0")
	mapped := mappedUser(root, os.Getuid())
	detail := fmt.Sprintf("user %d, no new privileges %s, capabilities %s", os.Getuid(), yesNo(status["NoNewPrivs"] == "1"), orNone(caps))
	if mapped >= 0 && mapped != os.Getuid() {
		detail += fmt.Sprintf(", user %d outside", mapped)
	}
	f := sandbox.Finding{State: sandbox.NotEnforced, Detail: detail}
	switch {
	case caps != "":
		f.Remedy = "drop all capabilities"
	case mapped == 0 && os.Getuid() != 0:
		// Of a user namespace in another one only the next one out is shown.
		f.State, f.Detail = sandbox.Unknown, detail+", who that is on the machine cannot be seen from inside"
	case mapped == 0:
		f.Remedy = "run as another user than root, or in a user namespace that maps root to another"
	case status["NoNewPrivs"] != "1" && bounding != "":
		f.Remedy = "set no-new-privileges: a set-user-id program could raise them"
	default:
		f.State = sandbox.Enforced
	}
	return f
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// mappedUser is who a user is in the parent user namespace, -1 where nobody says.
func mappedUser(root fs.FS, uid int) int {
	b, err := fs.ReadFile(root, "proc/self/uid_map")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, count int
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && uid >= inside && uid-inside < count {
			return outside + uid - inside
		}
	}
	return -1
}

func probeMemory(root fs.FS) sandbox.Finding {
	if n, where, ok := cgroupLimit(root, "memory", "memory.max", "memory.limit_in_bytes"); ok {
		return sandbox.Finding{State: sandbox.Enforced, Detail: fmt.Sprintf("%d MiB (%s)", n>>20, where)}
	}
	return unlimited(syscall.RLIMIT_AS, "memory", "bytes of address space for each process, not for all together", false)
}

func probePIDs(root fs.FS) sandbox.Finding {
	if n, where, ok := cgroupLimit(root, "pids", "pids.max", "pids.max"); ok {
		return sandbox.Finding{State: sandbox.Enforced, Detail: fmt.Sprintf("%d (%s)", n, where)}
	}
	const rlimitNproc = 6
	// The limit of a user counts: root is not held to it.
	return unlimited(rlimitNproc, "processes", "processes of this user", os.Getuid() != 0)
}

// manyProcesses is what a system lets a user have, so no limit of a sandbox.
const manyProcesses = 1 << 14

func unlimited(resource int, what, unit string, counts bool) sandbox.Finding {
	var l syscall.Rlimit
	f := sandbox.Finding{State: sandbox.NotEnforced, Detail: "no limit of " + what + " is set", Remedy: "let the tier make a control group with a limit"}
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil {
		// Where control groups are not shown, only who is outside knows their limits.
		f.State, f.Remedy = sandbox.Unknown, ""
	}
	if syscall.Getrlimit(resource, &l) != nil || l.Cur >= math.MaxInt64 {
		return f
	}
	f.Detail = fmt.Sprintf("at most %d %s", l.Cur, unit)
	if counts && l.Cur <= manyProcesses {
		f.State, f.Remedy = sandbox.Enforced, ""
	}
	return f
}

// cgroupLimit is the least limit of this process's control groups. One that is larger
// than any machine is none. In a container the path is often that of the host and not
// there; the limit then stands in the root that is mounted.
func cgroupLimit(root fs.FS, controller, v2, v1 string) (least uint64, where string, ok bool) {
	least = math.MaxUint64
	b, _ := fs.ReadFile(root, "proc/self/cgroup")
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", v2
		if fields[1] == controller {
			base, file = path.Join("sys/fs/cgroup", controller), v1
		} else if fields[0] != "0" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			name := path.Join(base, group, file)
			if text, err := fs.ReadFile(root, name); err == nil {
				if n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil && n < least && n < 1<<50 {
					least, where, ok = n, "/"+name, true
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return least, where, ok
}

// How the program ends that Needless is the whole of.
const (
	letThrough = 3
	notTried   = 4
)

// Needless makes a system call that no tool needs and every engine's filter refuses, in
// a way that the kernel itself finds invalid. It returns the exit status for the process.
func Needless() int {
	fd, _, errno := syscall.RawSyscall(unix.SYS_USERFAULTFD, ^uintptr(0), 0, 0)
	switch errno {
	case 0:
		_ = syscall.Close(int(fd))
		return letThrough
	case syscall.EINVAL:
		return letThrough
	case syscall.EPERM, syscall.EACCES, syscall.ENOSYS:
		return 0
	}
	return notTried
}

// needless does so in a child: a filter may end who tries.
func needless(program string, run func(*exec.Cmd) error) error {
	if program == "" {
		return errors.New("this program has no file of its own")
	}
	return run(exec.Command(program, NeedlessArg))
}

// probeSyscalls tries what a filter is there to refuse: one that lets everything
// through is listed as a filter, too.
func probeSyscalls(status map[string]string, needless func() error) sandbox.Finding {
	const remedy = "let the tier or the engine set a seccomp profile"
	switch status["Seccomp"] {
	case "2":
		err := needless()
		ended := (*exec.ExitError)(nil)
		switch {
		case err == nil, errors.As(err, &ended) && !ended.Exited(): // by the filter
			return sandbox.Finding{State: sandbox.Enforced, Detail: "a seccomp filter is in force, and refuses userfaultfd"}
		case ended != nil && ended.ExitCode() == letThrough:
			return sandbox.Finding{State: sandbox.NotEnforced, Detail: "the seccomp filter lets userfaultfd through, which no tool needs", Remedy: remedy}
		}
		return sandbox.Finding{Detail: fmt.Sprintf("whether the seccomp filter refuses anything cannot be tried: %v", err)}
	case "1":
		return sandbox.Finding{State: sandbox.Enforced, Detail: "seccomp in strict mode"}
	case "0":
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: "no seccomp filter", Remedy: remedy}
	}
	return sandbox.Finding{Detail: "the kernel does not say whether there is a filter"}
}
