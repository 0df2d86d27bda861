package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// read tries each file, by its name and by /proc of every process.
func read(files []string) (string, error) {
	var tries []func() (string, error)
	for _, f := range files {
		tries = append(tries, func() (string, error) { return contents(f) })
		roots, _ := filepath.Glob("/proc/[0-9]*/root")
		for _, root := range append(roots, "/..", "/proc/1/cwd/../../../../..", "/oldroot") {
			tries = append(tries, func() (string, error) { return contents(filepath.Join(root, f)) })
		}
	}
	return anyOf(tries...)
}

func contents(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return file + ": " + strings.TrimSpace(string(data[:min(len(data), 200)])), nil
}

// inherited looks for files and folders that were open before it began. The runtime of
// Go has files open, too, with low numbers.
func inherited([]string) (string, error) {
	for fd := 100; fd < 1024; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
			to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			return fmt.Sprintf("descriptor %d is %s", fd, to), nil
		}
	}
	return "", errors.New("no file or folder is open")
}

// write appends to each file, which is the host's.
func write(files []string) (string, error) {
	var tries []func() (string, error)
	for _, name := range files {
		tries = append(tries, func() (string, error) {
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return "", err
			}
			if _, err := f.WriteString("escaped"); err != nil {
				return "", err
			}
			return "wrote to " + name, f.Close()
		})
	}
	return anyOf(tries...)
}

// writeSystem makes a file where programs and settings are.
func writeSystem([]string) (string, error) {
	var tries []func() (string, error)
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/bin", "/etc", "/lib", "/lib64", "/root", "/home", "/var", "/opt", "/sys", "/proc", "/awaken", "/run"} {
		tries = append(tries, func() (string, error) {
			name := filepath.Join(dir, ".awaken-escape")
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return "", err
			}
			return "made a file in " + dir, errors.Join(f.Close(), os.Remove(name))
		})
	}
	return anyOf(tries...)
}

// replace opens a program that runs for writing, or puts another in its place.
func replace(files []string) (string, error) {
	var tries []func() (string, error)
	for _, name := range files {
		tries = append(tries, func() (string, error) {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return "", err
			}
			return "may write to " + name, f.Close()
		}, func() (string, error) {
			old := name + ".old"
			if err := os.Rename(name, old); err != nil {
				return "", err
			}
			return "may rename " + name, os.Rename(old, name)
		})
	}
	return anyOf(tries...)
}

// link makes symbolic and hard links in the workspace to a file of the host's, and
// reads through them. They stay, for what reads the workspace from outside.
func link(files []string) (string, error) {
	var tries []func() (string, error)
	for i, f := range files {
		tries = append(tries, func() (string, error) {
			name := fmt.Sprintf("link-%d", i)
			if err := os.Symlink(f, name); err != nil {
				return "", err
			}
			return contents(name)
		}, func() (string, error) {
			name := fmt.Sprintf("hard-%d", i)
			if err := os.Link(f, name); err != nil {
				return "", err
			}
			return contents(name)
		})
	}
	return anyOf(tries...)
}

// mknod makes a device node of its own, and opens it: /dev/zero would be harmless, and
// the disk goes the same way.
func mknod([]string) (string, error) {
	var tries []func() (string, error)
	for _, dir := range []string{".", "/tmp", "/dev/shm", "/dev"} {
		tries = append(tries, func() (string, error) {
			node := filepath.Join(dir, "awaken-node")
			if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
				return "", fmt.Errorf("mknod in %s: %w", dir, err)
			}
			defer func() { _ = os.Remove(node) }()
			f, err := os.Open(node)
			if err != nil {
				return "", err
			}
			return "made and opened a device in " + dir, f.Close()
		})
	}
	return anyOf(tries...)
}

// devices opens those through which a machine can be taken over.
func devices([]string) (string, error) {
	names := []string{"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/dev/vhost-net"}
	for _, glob := range []string{"/dev/sd*", "/dev/vd*", "/dev/nvme*", "/dev/loop[0-9]*", "/dev/dm-*", "/dev/cpu/*/msr"} {
		found, _ := filepath.Glob(glob)
		names = append(names, found...)
	}
	var tries []func() (string, error)
	for _, name := range names {
		tries = append(tries, func() (string, error) {
			f, err := os.Open(name)
			if err != nil {
				return "", err
			}
			return "opened " + name, f.Close()
		})
	}
	return anyOf(tries...)
}

// mount changes what is where.
func mount([]string) (string, error) {
	if err := os.Mkdir("mounted", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	try := func(what, source, target, kind string, flags uintptr) func() (string, error) {
		return func() (string, error) {
			if err := unix.Mount(source, target, kind, flags, ""); err != nil {
				return "", fmt.Errorf("%s: %w", what, err)
			}
			if flags&unix.MS_REMOUNT == 0 {
				return what, unix.Unmount(target, unix.MNT_DETACH)
			}
			return what, nil
		}
	}
	return anyOf(
		try("mounted a tmpfs", "none", "mounted", "tmpfs", 0),
		try("bound /etc", "/etc", "mounted", "", unix.MS_BIND),
		try("mounted proc", "none", "mounted", "proc", 0),
		func() (string, error) {
			fd, err := unix.Fsopen("tmpfs", 0)
			if err != nil {
				return "", fmt.Errorf("fsopen: %w", err)
			}
			return "made a file system with fsopen", unix.Close(fd)
		},
		func() (string, error) {
			if err := unix.Chroot("/tmp"); err != nil {
				return "", fmt.Errorf("chroot: %w", err)
			}
			return "chroot", nil
		},
	)
}

// kernelFiles opens for writing what the whole machine obeys.
func kernelFiles([]string) (string, error) {
	names := []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/kcore", "/sys/kernel/uevent_helper", "/sys/power/state"}
	for _, glob := range []string{"/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/*/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		found, _ := filepath.Glob(glob)
		names = append(names, found...)
	}
	var tries []func() (string, error)
	for _, name := range names {
		flags := os.O_WRONLY
		if name == "/proc/kcore" {
			flags = os.O_RDONLY
		}
		tries = append(tries, func() (string, error) {
			f, err := os.OpenFile(name, flags, 0)
			if err != nil {
				return "", err
			}
			return "opened " + name, f.Close()
		})
	}
	return anyOf(tries...)
}

// byHandle opens a file by its number in the file system, past every mount and root.
func byHandle([]string) (string, error) {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
	if err != nil {
		return "", fmt.Errorf("name_to_handle_at: %w", err)
	}
	at, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.OpenByHandleAt(at, handle, unix.O_RDONLY)
	if err != nil {
		return "", fmt.Errorf("open_by_handle_at: %w", err)
	}
	return "open_by_handle_at", unix.Close(fd)
}
