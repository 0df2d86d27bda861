package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// daemon is a dockerd of one test's own.
type daemon struct {
	t      *testing.T
	dir    string
	client string
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{t: t, client: sandboxtest.NeedDocker(t).Binary}
	var err error
	if d.dir, err = os.MkdirTemp("", "awd"); err != nil { // the paths of sockets are short
		t.Fatal(err)
	}
	t.Cleanup(d.clean)
	d.start()
	return d
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "d.sock") }

func (d *daemon) start() {
	d.t.Helper()
	for _, stale := range []string{"pid", "run/containerd/containerd.pid"} { // of one that was killed, and its containerd with it
		_ = os.Remove(filepath.Join(d.dir, stale))
	}
	d.cmd = exec.Command("dockerd", "--host="+d.host(), "--pidfile="+filepath.Join(d.dir, "pid"), "--data-root="+filepath.Join(d.dir, "data"),
		"--exec-root="+filepath.Join(d.dir, "run"), "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/"+filepath.Base(d.dir))
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatalf("dockerd: %v; to install it: apt-get install docker.io", err)
	}
	eventually(d.t, "dockerd answers", func() bool {
		return exec.Command(d.client, "--host", d.host(), "version").Run() == nil
	})
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	_ = d.cmd.Wait()
}

// clean ends the daemon, and all that it has started: whatever names its folder.
func (d *daemon) clean() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
	for _, pid := range naming(d.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, d.dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
	if d.t.Failed() {
		d.t.Logf("dockerd said:\n%s", d.log.Bytes()[max(0, d.log.Len()-4000):])
	}
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Errorf("the folder of dockerd: %v", err)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(d.dir))
	for _, g := range append(groups, "/sys/fs/cgroup/"+filepath.Base(d.dir)) {
		_ = syscall.Rmdir(g)
	}
}

// naming are the processes with the folder in their arguments.
func naming(dir string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range found {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if pid != os.Getpid() && strings.Contains(arguments(pid), dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestKilledDockerd kills the engine in the middle of a call. The host says that nobody
// knows what came of it, and that the engine is down to whoever calls next; once it is
// back the next call is made, and nothing of the first is left.
func TestKilledDockerd(t *testing.T) {
	image := sandboxtest.NeedDocker(t).Image
	d := newDaemon(t)
	if out, err := exec.CommandContext(t.Context(), d.client, "--host", d.host(), "pull", image).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := beginWith(t, "docker", fmt.Sprintf("image = %q\n[sandbox.docker]\ncommand = [%q, \"--host\", %q]\n", image, d.client, d.host()), 1000)
	d.kill()
	if err := b.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &b.stderr)
	}
	down := b.batch("other", call{"list", "workspace__list", map[string]string{}}).Results[0]
	if !down.IsError || down.Executed != nil || !strings.Contains(string(down.Content), "engine down") {
		t.Errorf("without the engine a call gives %s", down.Content)
	}
	d.start()
	b.settle()
	b.stated(b.stdout.Bytes())
}
