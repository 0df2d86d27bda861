package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox"
)

var defaultFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf",
	"/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted",
}

// insideID is the user and group that processes see themselves as.
const insideID = 65534

// The few files of /etc that programs cannot do without. They tell nothing of this
// machine.
var madeFiles = []struct{ path, text string }{
	{"/etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"},
	{"/etc/group", "root:x:0:\nnogroup:x:65534:\n"},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	{"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
}

// command collects the arguments of bwrap and the files it inherits. The arguments go
// through a file, too: the first process inside shows them to all others there, and
// they tell where things are on this machine.
type command struct {
	args  []string
	files []*os.File // ours to close once bwrap has them
}

func (c *command) add(args ...string) { c.args = append(c.args, args...) }

// pass hands f to bwrap and returns its number there.
func (c *command) pass(f *os.File) string {
	c.files = append(c.files, f)
	return strconv.Itoa(2 + len(c.files))
}

// data hands text to bwrap as a file.
func (c *command) data(name string, text []byte) (string, error) {
	fd, err := unix.MemfdCreate("awaken-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return "", os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	number := c.pass(f)
	if _, err := f.WriteAt(text, 0); err != nil {
		return "", err
	}
	return number, nil
}

func (c *command) close() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}

// flags are what every sandbox has, whatever is in it.
func (c *command) flags(network sandbox.Network) {
	c.add("--unshare-all", "--unshare-user", "--disable-userns")
	if network == sandbox.NetworkHost {
		c.add("--share-net")
	}
	c.add("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv",
		"--uid", strconv.Itoa(insideID), "--gid", strconv.Itoa(insideID), "--hostname", "sandbox")
}

// root makes the read-only part of the file system.
func (c *command) root(folders []string, network sandbox.Network, at func(string) string) error {
	for _, folder := range folders {
		info, err := os.Lstat(folder)
		if err != nil {
			continue // bwrap would say so of each call, and a list for all systems names what few have
		}
		if info.Mode()&os.ModeSymlink == 0 {
			c.add("--ro-bind", at(folder), folder)
			continue
		}
		target, err := os.Readlink(folder)
		if err != nil {
			return fmt.Errorf("folder %s: %w", folder, err)
		}
		c.add("--symlink", target, folder)
	}
	for _, f := range madeFiles {
		number, err := c.data(filepath.Base(f.path), []byte(f.text))
		if err != nil {
			return fmt.Errorf("making %s: %w", f.path, err)
		}
		c.add("--perms", "0444", "--file", number, f.path)
	}
	if network == sandbox.NetworkHost {
		// How this machine finds names is part of its network. It is often a link to /run.
		if file, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
			c.add("--ro-bind", at(file), "/etc/resolv.conf")
		}
	}
	c.add("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev")
	return nil
}

// places mounts what belongs to this one sandbox, and closes the root.
func (c *command) places(spec *sandbox.Spec, limits sandbox.InstanceLimits, at func(string) string) {
	c.add("--perms", "1777", "--size", strconv.FormatInt(int64(limits.TempMiB)<<20, 10), "--tmpfs", sandbox.TempDir,
		"--ro-bind", at(spec.Hand), sandbox.HandPath,
		"--bind", at(spec.State), sandbox.StateDir,
		"--bind", at(spec.Workspace), sandbox.WorkspaceDir)
	for _, m := range spec.Mounts {
		kind := "--ro-bind"
		if m.Writable {
			kind = "--bind"
		}
		c.add(kind, at(m.Source), m.Target)
	}
	c.add("--remount-ro", "/", "--chdir", sandbox.WorkspaceDir)
}

// environment is what the Hand sees. Nothing of the host's own is in it.
func (c *command) environment(extra []string) {
	env := append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + sandbox.TempDir, "TMPDIR=" + sandbox.TempDir, "LANG=C.UTF-8",
	}, extra...)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		c.add("--setenv", name, value)
	}
}

// line is bwrap's command line: all arguments by file, then the program.
func (c *command) line(program ...string) ([]string, error) {
	number, err := c.data("arguments", []byte(strings.Join(c.args, "\x00")+"\x00"))
	if err != nil {
		return nil, fmt.Errorf("passing arguments: %w", err)
	}
	return append([]string{"--args", number, "--"}, program...), nil
}
