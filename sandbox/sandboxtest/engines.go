package sandboxtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// EnginesVariable names the environment variable with the path of the file that
// "engines up" wrote. Without it the file is bin/engines.json of the repository.
const EnginesVariable = "AWAKEN_ENGINES"

// EngineSet tells which real engines run for tests and how they are reached. A nil
// engine is not there; Missing says why. It is read once for each test process.
type EngineSet struct {
	Program string            `json:"program"` // the program that started them
	State   string            `json:"state"`   // the folder with everything they keep, their logs too
	Docker  *DockerEngine     `json:"docker,omitempty"`
	Podman  *PodmanEngine     `json:"podman,omitempty"`
	Kube    *KubeCluster      `json:"kube,omitempty"`
	Missing map[string]string `json:"missing,omitempty"` // "docker", "podman", "kube": why it does not run
}

// DockerEngine is a dockerd of the tests' own.
type DockerEngine struct {
	Binary string `json:"binary"` // the client
	Host   string `json:"host"`   // unix:///…/docker.sock, for -H
	Image  string `json:"image"`  // name@sha256:…, present; busybox's commands are in it
}

// PodmanEngine is podman with storage of the tests' own.
type PodmanEngine struct {
	Binary  string   `json:"binary"`
	Args    []string `json:"args"`     // before the subcommand: podman Args… run RunArgs… IMAGE
	RunArgs []string `json:"run_args"` // of run and create: what this machine needs besides
	Image   string   `json:"image"`    // name@sha256:…, present; busybox's commands are in it
}

// KubeCluster is a Kubernetes with one node. It schedules Pods and enforces Pod
// Security and RBAC. It does not enforce NetworkPolicy.
type KubeCluster struct {
	Kubeconfig string `json:"kubeconfig"` // of an administrator
	Namespace  string `json:"namespace"`  // enforces the restricted Pod Security profile
	Node       string `json:"node"`
	Image      string `json:"image"` // name@sha256:…, present on the node; busybox's commands are in it
}

// Engines returns the engines that run for tests. Where "engines up" was not run all
// are missing.
func Engines(t testing.TB) *EngineSet {
	t.Helper()
	set, err := readEngines()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// NeedDocker returns the dockerd of the tests. Without one the test is skipped, or
// fails where CI is "true".
func NeedDocker(t testing.TB) *DockerEngine {
	t.Helper()
	set := Engines(t)
	if set.Docker == nil {
		set.miss(t, "docker")
	}
	return set.Docker
}

// NeedPodman returns the podman of the tests. Without one the test is skipped, or
// fails where CI is "true".
func NeedPodman(t testing.TB) *PodmanEngine {
	t.Helper()
	set := Engines(t)
	if set.Podman == nil {
		set.miss(t, "podman")
	}
	return set.Podman
}

// NeedKube returns the Kubernetes of the tests. Without one the test is skipped, or
// fails where CI is "true".
func NeedKube(t testing.TB) *KubeCluster {
	t.Helper()
	set := Engines(t)
	if set.Kube == nil {
		set.miss(t, "kube")
	}
	return set.Kube
}

// Load brings an image into every engine that runs: tar is an OCI layout, as "make
// image" writes it. The reference it returns, name@sha256:…, is good for all of them.
func (s *EngineSet) Load(t testing.TB, tar string) string {
	t.Helper()
	return strings.TrimSpace(s.run(t, "load", tar))
}

// Kubeconfig returns the path of a configuration for a user that the cluster knows by
// name and groups, and to whom nothing is allowed until a RoleBinding says so.
func (s *EngineSet) Kubeconfig(t testing.TB, user string, groups ...string) string {
	t.Helper()
	return strings.TrimSpace(s.run(t, append([]string{"kubeconfig", user}, groups...)...))
}

func (s *EngineSet) run(t testing.TB, args ...string) string {
	t.Helper()
	if s.Program == "" {
		s.miss(t, "engines")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), s.Program, append([]string{"-state", s.State}, args...)...) //nolint:gosec // the program that the file of the tests names
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("engines %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.String()
}

func (s *EngineSet) miss(t testing.TB, name string) {
	t.Helper()
	why := s.Missing[name]
	if why == "" {
		why = "not started: make engines"
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %s", name, why)
		return
	}
	t.Skipf("%s: %s", name, why)
}

var readEngines = sync.OnceValues(func() (*EngineSet, error) {
	if name := os.Getenv(EnginesVariable); name != "" {
		return readEngineSet(name)
	}
	dir, err := os.Getwd() // the folder of the package that is tested
	if err != nil {
		return nil, err
	}
	return findEngineSet(dir)
})

// findEngineSet looks in dir and above, up to the top of the repository.
func findEngineSet(dir string) (*EngineSet, error) {
	for {
		set, err := readEngineSet(filepath.Join(dir, "bin", "engines.json"))
		if !errors.Is(err, fs.ErrNotExist) {
			return set, err
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return &EngineSet{}, nil
		}
		dir = filepath.Dir(dir)
	}
}

func readEngineSet(name string) (*EngineSet, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the file that the tester names
	if err != nil {
		return nil, fmt.Errorf("the engines of the tests: %w; run make engines, or unset %s", err, EnginesVariable)
	}
	set := &EngineSet{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(set); err != nil {
		return nil, fmt.Errorf("%s: %w; run make engines again", name, err)
	}
	return set, nil
}
