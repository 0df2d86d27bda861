package namespace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/cgroup"
)

// limit puts limits on the first process inside, before bwrap lets it go on: it has no
// children yet, and all of them will have the same.
func (t *Tier) limit(i *instance, labels *sandbox.Labels, as userID) error {
	if labels.Host != "" {
		group, err := cgroup.Find(t.o.Cgroup).Make(labels, i.limits)
		if err != nil {
			return err
		}
		i.group.Store(group)
		if err := group.Add(i.child); err != nil {
			return err
		}
	}
	limits := map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_NOFILE: uint64(i.limits.OpenFiles), //nolint:gosec // not negative
	}
	if _, err := i.memoryLimit(); err != nil {
		// Of each process alone, and better than nothing: what it may have of its own.
		limits[unix.RLIMIT_DATA] = uint64(i.limits.MemoryMiB) << 20 //nolint:gosec // not negative
	}
	if _, err := i.pidLimit(); err != nil && countsByNamespace() {
		limits[unix.RLIMIT_NPROC] = uint64(i.limits.PIDs) //nolint:gosec // not negative
	}
	return as.prlimit(i.child, limits)
}

// countsByNamespace says whether the kernel counts a user's processes in each user
// namespace, and not those of this machine together: since 5.14.
func countsByNamespace() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}

// userID is a user of this machine as which something is done.
type userID struct {
	uid, gid int
	other    bool // than who runs the host
}

// prlimit lowers limits of a process of the user's.
func (u userID) prlimit(pid int, limits map[int]uint64) error {
	set := func() error {
		for what, most := range limits {
			var now unix.Rlimit
			if err := unix.Prlimit(pid, what, nil, &now); err != nil {
				return os.NewSyscallError("prlimit", err)
			}
			most = min(most, now.Max)
			if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
				return os.NewSyscallError("prlimit", err)
			}
		}
		return nil
	}
	if !u.other {
		return set()
	}
	// Without CAP_SYS_RESOURCE, which root has not in a container, only the user itself
	// may. A thread can be somebody else than its process, and ends with its goroutine.
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		_, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(u.gid), uintptr(u.gid), uintptr(u.gid))
		if e == 0 {
			_, _, e = unix.RawSyscall(unix.SYS_SETRESUID, uintptr(u.uid), uintptr(u.uid), uintptr(u.uid))
		}
		if e != 0 {
			result <- os.NewSyscallError("setresuid", e)
			return
		}
		result <- set()
	}()
	return <-result
}

var errNoGroup = errors.New("it is in no cgroup")

func (i *instance) memoryLimit() (int64, error) {
	g := i.group.Load()
	if g == nil {
		return 0, errNoGroup
	}
	return g.MemoryLimit(i.child)
}

func (i *instance) pidLimit() (int64, error) {
	g := i.group.Load()
	if g == nil {
		return 0, errNoGroup
	}
	return g.PIDLimit(i.child)
}

// limitFindings reads back what the kernel holds.
func (i *instance) limitFindings(p sandbox.Properties) {
	const remedy = "let the host make cgroups: as a service with Delegate=yes, as root, or below [sandbox].cgroup"
	bytes, err := i.memoryLimit()
	most := int64(i.limits.MemoryMiB) << 20
	switch {
	case err != nil:
		p[sandbox.PropertyMemory] = finding(false, "", "each process alone, by RLIMIT_DATA; all together are not: "+err.Error(), remedy)
	default:
		p[sandbox.PropertyMemory] = finding(bytes <= most, fmt.Sprintf("a cgroup with %d MiB", bytes>>20),
			fmt.Sprintf("a cgroup with %d MiB, which is more than %d", bytes>>20, i.limits.MemoryMiB), remedy)
	}
	n, err := i.pidLimit()
	by := "a cgroup"
	if err != nil {
		var own bool
		if n, own = processLimit(i.child); own && countsByNamespace() {
			by, err = "RLIMIT_NPROC", nil
		}
	}
	switch {
	case err != nil:
		p[sandbox.PropertyPIDs] = finding(false, "", "no limit: "+err.Error(), remedy)
	default:
		p[sandbox.PropertyPIDs] = finding(n <= int64(i.limits.PIDs), fmt.Sprintf("%s with %d", by, n),
			fmt.Sprintf("%s with %d, which is more than %d", by, n, i.limits.PIDs), remedy)
	}
}

// processLimit reads back how many processes the user of pid may have. It binds
// everybody but root.
func processLimit(pid int) (int64, bool) {
	status, err := readStatus(pid)
	if err != nil || strings.HasPrefix(status["Uid"], "0\t") {
		return 0, false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Max processes"); ok {
			f := strings.Fields(rest)
			if len(f) < 2 {
				return 0, false
			}
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
