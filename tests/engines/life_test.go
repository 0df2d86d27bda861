package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// A set of engines of the test's own: dockerd alone, which is killed, started again
// and taken down with a container in it.
func TestDockerComesBackAndLeavesNothing(t *testing.T) {
	there := sandboxtest.NeedDocker(t)
	dir, err := os.MkdirTemp("", "engines-") // a test's own folder has too long a path for sockets
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	state := filepath.Join(dir, "state")
	engines := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"-state", state}, args...)...)
		cmd.Dir = "../.." // where the sources of the image's program are
		cmd.Env = append(os.Environ(), "CI=true")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("engines %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	t.Cleanup(func() {
		// The context of the test is over by now.
		if text, err := exec.Command(program, "-state", state, "down").CombinedOutput(); err != nil { //nolint:noctx // bounded by down itself
			t.Errorf("down: %v\n%s", err, text)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	engines("up", "docker")
	var said report
	if err := readJSON(filepath.Join(state, "engines.json"), &said); err != nil {
		t.Fatal(err)
	}
	if said.Docker == nil || said.Docker.Host == there.Host || said.Podman != nil || said.Missing["podman"] == "" {
		t.Fatalf("report %+v", said)
	}
	client := func(args ...string) string {
		t.Helper()
		text, err := exec.CommandContext(t.Context(), there.Binary, append([]string{"--host", said.Docker.Host}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		return strings.TrimSpace(string(text))
	}
	id := client("run", "--detach", "--init", "--network=none", said.Docker.Image, "sleep", "600")
	engines("kill", "dockerd")
	engines("up", "docker")
	if state := client("inspect", "--format", "{{.State.Status}}", id); state != "exited" {
		t.Errorf("the container of the dockerd that was killed: %s", state)
	}
	client("start", id)

	e, err := open(state, "")
	if err != nil {
		t.Fatal(err)
	}
	if before, err := e.ours(); err != nil || len(before) < 4 { // dockerd, containerd, a shim, the container's two
		t.Errorf("processes %v: %v", before, err)
	}
	engines("kill", "dockerd")
	engines("down")
	if left, err := e.ours(); err != nil || len(left) > 0 {
		t.Errorf("processes left: %v, %v", left, err)
	}
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + e.cgroup())
	if err != nil || len(left) > 0 {
		t.Errorf("control groups left: %v, %v", left, err)
	}
	for _, name := range []string{state, "/sys/class/net/awd" + e.settings.ID, filepath.Join("/sys/fs/cgroup", e.cgroup())} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}
