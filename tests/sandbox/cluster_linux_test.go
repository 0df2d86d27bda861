package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// ownCluster is a Kubernetes of one test's own, whose parts it may kill.
type ownCluster struct {
	dir   string
	kube  *sandboxtest.KubeCluster
	image string // of the Hand
}

func newCluster(t *testing.T) *ownCluster {
	t.Helper()
	for _, name := range []string{"kube-apiserver", "kube-scheduler", "kubelet"} {
		if _, err := os.Stat(filepath.Join(root, "bin", name)); err != nil {
			missing(t, name+" is missing; to build it: make kube")
		}
	}
	c := &ownCluster{}
	var err error
	if c.dir, err = os.MkdirTemp("", "awk"); err != nil { // the paths of sockets are short
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.program(), "./tests/engines")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	t.Cleanup(func() { c.clean(t) })
	c.up(t)
	text, err := os.ReadFile(filepath.Join(c.dir, "state", "engines.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set sandboxtest.EngineSet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	if c.kube = set.Kube; c.kube == nil {
		missing(t, "kube: "+set.Missing["kube"])
	}
	c.image = strings.TrimSpace(c.engines(t, "load", sandboxtest.HandArchive(t)))
	return c
}

func (c *ownCluster) program() string { return filepath.Join(c.dir, "engines") }

func (c *ownCluster) command(args ...string) *exec.Cmd {
	// It outlives the context of the test, and bounds itself.
	cmd := exec.Command(c.program(), append([]string{"-state", filepath.Join(c.dir, "state"), "-bin", filepath.Join(root, "bin")}, args...)...)
	cmd.Dir = root
	return cmd
}

func (c *ownCluster) engines(t *testing.T, args ...string) string {
	t.Helper()
	cmd := c.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("engines %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// up starts what does not run.
func (c *ownCluster) up(t *testing.T) {
	t.Helper()
	c.engines(t, "up", "kube")
}

func (c *ownCluster) clean(t *testing.T) {
	if out, err := c.command("down").CombinedOutput(); err != nil {
		t.Errorf("down: %v\n%s", err, out)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		t.Error(err)
	}
}

func (c *ownCluster) settings() string {
	return fmt.Sprintf("image = %q\n[sandbox.k8s]\nkubeconfig = %q\nnamespace = %q\nhand_image = %q\n", c.kube.Image, c.kube.Kubeconfig, c.kube.Namespace, c.image)
}

// pods are those that hosts have made, by name, and whether each is being deleted.
func (c *ownCluster) pods(t *testing.T) map[string]bool {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name    string `json:"name"`
				Deleted string `json:"deletionTimestamp"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(askCluster(t, c.kube.Kubeconfig, http.MethodGet, "/api/v1/namespaces/"+c.kube.Namespace+"/pods", ""), &list); err != nil {
		t.Fatal(err)
	}
	pods := map[string]bool{}
	for _, pod := range list.Items {
		if m := pod.Metadata; strings.HasPrefix(m.Name, "awaken-") {
			pods[m.Name] = m.Deleted != ""
		}
	}
	return pods
}

// onlyPod is the name of the one Pod that hosts have made.
func (c *ownCluster) onlyPod(t *testing.T) string {
	t.Helper()
	pods := c.pods(t)
	if len(pods) != 1 {
		t.Fatalf("the Pods are %v, want one", pods)
	}
	for name := range pods {
		return name
	}
	return ""
}

// TestKilledCluster kills the kubelet, and then the API server, in the middle of a
// call. The command ends with its stream, and the host says that nobody knows what came
// of it and what was lost. Once the part is back no Pod is left and the call is not
// made again.
func TestKilledCluster(t *testing.T) {
	c := newCluster(t)
	within := func(t *testing.T, b *begun) string {
		t.Helper()
		hung := time.AfterFunc(patience, func() { _ = b.cmd.Process.Kill() })
		defer hung.Stop()
		if err := b.cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, &b.stderr)
		}
		return b.stdout.String()
	}
	says := func(t *testing.T, text string, wanted ...string) {
		t.Helper()
		for _, s := range wanted {
			if !strings.Contains(text, s) {
				t.Errorf("it does not say %q: %s", s, text)
			}
		}
	}
	// after is the next start of the host: the call is not made again, and nothing is left.
	after := func(t *testing.T, b *begun) {
		t.Helper()
		b.stated(b.must(message(t, slow(b.mark)), "-q", "run", "--run", "killed", "--step", "1", "-"))
		if left := c.pods(t); len(left) > 0 {
			t.Errorf("these Pods are left: %v", left)
		}
	}

	t.Run("kubelet", func(t *testing.T) {
		b := beginWith(t, "k8s", c.settings(), 1000)
		pod := c.onlyPod(t)
		c.engines(t, "kill", "kubelet")
		eventually(t, "the command has ended with its stream", func() bool { return len(marked(b.mark)) == 0 })
		eventually(t, "the host gives the Pod up", func() bool { return c.pods(t)[pod] })
		c.up(t)
		says(t, within(t, b), "indeterminate", "lost", "the Hand in Pod "+pod)
		after(t, b)
	})
	t.Run("kube-apiserver", func(t *testing.T) {
		b := beginWith(t, "k8s", c.settings(), 1000)
		pod := c.onlyPod(t)
		c.engines(t, "kill", "kube-apiserver")
		says(t, within(t, b), "indeterminate", "lost", "the cluster does not answer", pod, "refused")
		eventually(t, "the command has ended with its stream", func() bool { return len(marked(b.mark)) == 0 })
		down := b.batch("other", call{"list", "workspace__list", map[string]string{}}).Results[0]
		if !down.IsError || down.Executed != nil || down.Phase != "completed" {
			t.Errorf("without the API server a call is %+v", down)
		}
		says(t, string(down.Content), "tier k8s", "engine down", "refused", "API server")
		c.up(t)
		if left := c.onlyPod(t); left != pod {
			t.Errorf("the Pod %s is left, want %s", left, pod)
		}
		after(t, b)
	})
}
