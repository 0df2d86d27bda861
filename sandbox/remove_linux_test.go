package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file string) {
	t.Helper()
	mkdir(t, filepath.Dir(file))
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveTreeOfAnOrdinaryUser: folders without rights are no hindrance for the user
// they belong to, and what belongs to another is an error.
func TestRemoveTreeOfAnOrdinaryUser(t *testing.T) {
	const nobody = 65534
	temp := t.TempDir()
	if err := os.Chmod(filepath.Dir(temp), 0o711); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(temp, "top", "e")
	var closed []string
	for _, name := range []string{"a", "a/b", "a/b/c", "z"} {
		closed = append(closed, filepath.Join(dir, name))
	}
	write(t, filepath.Join(dir, "a/b/c/file"))
	write(t, filepath.Join(dir, "z/file"))
	if os.Getuid() == 0 {
		err := filepath.WalkDir(filepath.Dir(dir), func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, nobody, nobody))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	closed = append([]string{dir}, closed...)
	for i := len(closed) - 1; i >= 0; i-- {
		if err := os.Chmod(closed[i], 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := as(nobody, func() error { return RemoveTree(dir) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	write(t, filepath.Join(dir, "of-root/file"))
	err := as(nobody, func() error { return RemoveTree(dir) })
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("what belongs to another: %v", err)
	}
}

// as runs f as another user, where this process is root: on a thread that is thrown
// away.
func as(uid int, f func() error) error {
	if os.Getuid() != 0 {
		return f()
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			result <- e
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			result <- e
			return
		}
		result <- f()
	}()
	return <-result
}

// TestRemoveTreeWithAWriter: what still writes cannot keep it busy for ever, and what
// has ended is no hindrance.
func TestRemoveTreeWithAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "e")
	mkdir(t, dir)
	root := openRoot(t, dir)
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; !stop.Load(); i++ {
			// By the folder that is open: it stays the same however it is named.
			_ = root.MkdirAll("a/b/"+strconv.Itoa(i), 0o700)
			_ = root.WriteFile("a/f"+strconv.Itoa(i), nil, 0o600)
			_ = root.Symlink("/", "l"+strconv.Itoa(i))
		}
	}()
	for {
		if _, err := root.Lstat("a/b"); err == nil {
			break
		}
	}
	if err := removeWithin(dir, -time.Second); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("when its time is over: %v", err)
	}
	begun := time.Now()
	err := removeWithin(dir, 300*time.Millisecond)
	took := time.Since(begun)
	stop.Store(true)
	<-ended
	if took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if err != nil && !strings.Contains(err.Error(), "not empty after 300ms") {
		t.Errorf("while something writes: %v", err)
	}
	if err := RemoveTree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/"); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveTreeStopsAtMounts: what is mounted in a tree is not emptied, be it another
// file system or a folder of the same one.
func TestRemoveTreeStopsAtMounts(t *testing.T) {
	if os.Getenv("AWAKEN_TEST_MOUNTS") != "" {
		removeWithMounts(t)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRemoveTreeStopsAtMounts$", "-test.v")
	cmd.Env = append(os.Environ(), "AWAKEN_TEST_MOUNTS=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func removeWithMounts(t *testing.T) {
	for name, mount := range map[string]func(outside, at string) error{
		"another file system": func(_, at string) error {
			return errors.Join(unix.Mount("tmpfs", at, "tmpfs", 0, ""), os.WriteFile(filepath.Join(at, "file"), nil, 0o600))
		},
		"a folder of the same": func(outside, at string) error { return unix.Mount(outside, at, "", unix.MS_BIND, "") },
	} {
		for _, where := range []string{"m", "a/b/m"} {
			t.Run(name+" at "+where, func(t *testing.T) {
				dir, outside := filepath.Join(t.TempDir(), "e"), t.TempDir()
				at := filepath.Join(dir, where)
				mkdir(t, at)
				write(t, filepath.Join(outside, "file"))
				write(t, filepath.Join(dir, "other/file"))
				if err := mount(outside, at); err != nil {
					t.Fatal(err)
				}
				if err := RemoveTree(dir); err == nil || !strings.Contains(err.Error(), "mounted") {
					t.Errorf("with a mount: %v", err)
				}
				if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
					t.Errorf("what was mounted: %v", err)
				}
				for _, err := range []error{unmountBelow(dir), RemoveTree(dir)} {
					if err != nil {
						t.Errorf("without it: %v", err)
					}
				}
			})
		}
	}
}

// unmountBelow finds the mount wherever it was moved to.
func unmountBelow(dir string) error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], dir+"/") {
			return unix.Unmount(f[4], 0)
		}
	}
	return errors.New("nothing is mounted there any more")
}
