package namespace

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Inspect reads what the kernel says of the first process inside.
func (i *instance) Inspect(context.Context) (*sandbox.Effective, error) {
	_, child := i.handle()
	status, err := readStatus(child)
	if err != nil {
		return nil, i.left("reading what is in force", err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", child))
	if err != nil {
		return nil, i.left("reading what is mounted", err)
	}
	apart := func(kind string) bool {
		ours, err1 := os.Readlink("/proc/self/ns/" + kind)
		theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", child, kind))
		return err1 == nil && err2 == nil && ours != theirs
	}
	p := sandbox.Properties{
		sandbox.PropertyFilesystem: i.filesystem(string(mounts), apart("mnt")),
		sandbox.PropertyNetwork:    i.networkFinding(apart("net")),
		sandbox.PropertyProcesses:  finding(apart("pid") && apart("ipc"), "a PID namespace of its own", "it shares the PID namespace of this machine", "this is a defect: report it"),
		sandbox.PropertyUser:       user(status, apart("user")),
		sandbox.PropertySyscalls:   syscalls(status),
	}
	i.limitFindings(p)
	// The process may have ended while it was read, and its number be another's.
	select {
	case <-i.done:
		return nil, i.left("reading what is in force", i.Ended(context.Background()))
	default:
	}
	return &sandbox.Effective{Tier: sandbox.TierNamespace, ID: strconv.Itoa(child), Properties: p}, nil
}

// finding is enforced with detail yes, or not with detail no.
func finding(enforced bool, yes, no, remedy string) sandbox.Finding {
	if enforced {
		return sandbox.Finding{State: sandbox.Enforced, Detail: yes}
	}
	return sandbox.Finding{State: sandbox.NotEnforced, Detail: no, Remedy: remedy}
}

func readStatus(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields, nil
}

func user(status map[string]string, apart bool) sandbox.Finding {
	ids := strings.Fields(status["Uid"])
	if len(ids) != 4 {
		return sandbox.Finding{Detail: "the kernel does not say which user it is"}
	}
	switch {
	case slices.Contains(ids, "0"):
		return finding(false, "", "user 0 of this machine, without capabilities",
			"run the host as an ordinary user, or with the right to make mount namespaces (CAP_SYS_ADMIN)")
	case status["CapEff"] != zeroCaps || status["CapPrm"] != zeroCaps || status["CapBnd"] != zeroCaps:
		return finding(false, "", "it has capabilities: "+status["CapEff"], "this is a defect: report it")
	case status["NoNewPrivs"] != "1":
		return finding(false, "", "programs can raise their rights", "this is a defect: report it")
	}
	return finding(apart, "user "+ids[0]+" of this machine, no capabilities, and no way to more", "it shares the user namespace of this machine", "this is a defect: report it")
}

const zeroCaps = "0000000000000000"

func syscalls(status map[string]string) sandbox.Finding {
	return finding(status["Seccomp"] == "2", "an allow list of system calls", "no filter", "use a kernel with seccomp filters")
}

func (i *instance) networkFinding(apart bool) sandbox.Finding {
	if !apart {
		f := finding(false, "", "what this machine reaches", `set network = "none"`)
		f.Level = string(sandbox.NetworkHost)
		return f
	}
	f := finding(true, "a network namespace with loopback alone", "", "")
	f.Level = string(sandbox.NetworkNone)
	if i.network == sandbox.NetworkAllowlist {
		f.Level, f.Detail = string(sandbox.NetworkAllowlist), f.Detail+"; the host sends what is granted"
	}
	return f
}

// filesystem looks for a mount that should not be there, or that can be written and
// should not.
func (i *instance) filesystem(mountinfo string, apart bool) sandbox.Finding {
	const defect = "this is a defect: report it"
	if !apart {
		return finding(false, "", "it shares the mounts of this machine", defect)
	}
	root := false
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return sandbox.Finding{Detail: "the kernel lists mounts in an unknown form"}
		}
		point, readOnly := unescape(f[4]), slices.Contains(strings.Split(f[5], ","), "ro")
		switch {
		case point == "/":
			root = readOnly
		case !i.expected(point):
			return finding(false, "", point+" is mounted and was not asked for", defect)
		case !readOnly && !i.mayWrite(point):
			return finding(false, "", point+" can be written", defect)
		}
	}
	return finding(root, "read-only, but for the workspace, temporary files and mounts that say so", "/ can be written", defect)
}

// kernelPlaces are file systems of the kernel, of which bwrap covers what would reach
// out of the sandbox.
var kernelPlaces = []string{"/proc", "/dev"}

func below(point string, places []string) bool {
	return slices.ContainsFunc(places, func(p string) bool { return point == p || strings.HasPrefix(point, p+"/") })
}

func (i *instance) mayWrite(point string) bool {
	for at := point; ; at = at[:strings.LastIndexByte(at, '/')] {
		if at == "" {
			return below(point, kernelPlaces)
		}
		if w, ok := i.writable[at]; ok {
			return w
		}
	}
}

func (i *instance) expected(point string) bool {
	if below(point, kernelPlaces) || below(point, i.folders) || point == "/etc/resolv.conf" || point == sandbox.HandPath {
		return true
	}
	for at := range i.writable {
		if below(point, []string{at}) {
			return true
		}
	}
	return false
}

// unescape undoes what mountinfo writes for spaces and the like.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
