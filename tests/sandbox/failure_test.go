package sandbox

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// TestPlacementErrors: what is wrong with an engine is said in the result of the call
// that needs it: which tier, the class, the engine's own words, and the remedy.
func TestPlacementErrors(t *testing.T) {
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}`)
	absent := func(_ *testing.T, lines string) string {
		return digest.ReplaceAllString(lines, "@sha256:"+strings.Repeat("0", 64))
	}
	replace := func(pattern, by string) func(*testing.T, string) string {
		return func(t *testing.T, lines string) string {
			changed := regexp.MustCompile(pattern).ReplaceAllString(lines, by)
			if changed == lines {
				t.Fatalf("there is no %s in %s", pattern, lines)
			}
			return changed
		}
	}
	for _, c := range []struct {
		name, tier string
		change     func(t *testing.T, lines string) string
		says       []string
	}{
		{"engine down", "docker", replace(`unix://[^"]*`, "unix:///nowhere/docker.sock"), []string{"engine down", "/nowhere/docker.sock", "start"}},
		{"engine down", "k8s", func(t *testing.T, lines string) string {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
				"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {}}]\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return replace(`kubeconfig = "[^"]*"`, fmt.Sprintf("start_timeout = \"2s\"\nkubeconfig = %q", file))(t, lines)
		}, []string{"engine down", "127.0.0.1:1", "refused"}},
		{"image missing", "docker", absent, []string{"image missing", "sha256:000", "pull"}},
		{"image missing", "podman", absent, []string{"image missing", "sha256:000", "pull"}},
		{"image missing", "k8s", absent, []string{"image missing", "sha256:000", "ErrImagePull"}},
		{"rights missing", "k8s", func(t *testing.T, lines string) string {
			return replace(`kubeconfig = "[^"]*"`, fmt.Sprintf("kubeconfig = %q", unprivileged(t)))(t, lines)
		}, []string{"permission denied", "create pods/exec", "rbac.yaml"}},
	} {
		t.Run(c.tier+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, c.tier, "", c.change(t, settings(t, c.tier)), "plugins/workspace")
			got := w.batch("r", call{"list", "workspace__list", map[string]string{}}).Results[0]
			text := string(got.Content)
			t.Logf("%s", text)
			if !got.IsError || got.Executed != nil || got.Phase != "completed" {
				t.Errorf("the call is %+v", got)
			}
			for _, s := range append(c.says, c.tier) {
				if !strings.Contains(text, s) {
					t.Errorf("it does not say %q: %s", s, text)
				}
			}
		})
	}
}

// unprivileged is a configuration of a user that nobody gave a right.
func unprivileged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(sandboxtest.NeedKube(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, u := range config["users"].([]any) {
		u.(map[string]any)["user"].(map[string]any)["as"] = "awaken-nobody"
	}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestImageByTag is refused with the line of the file, before anything starts.
func TestImageByTag(t *testing.T) {
	for _, tier := range []string{"docker", "podman", "k8s"} {
		w := newWorldWith(t, tier, "image = \"busybox:latest\"", "")
		cmd := w.command(t.Context(), message(t, call{"list", "workspace__list", map[string]string{}}), "run", "-")
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("tier %s: %v, want status 2", tier, err)
		}
		for _, says := range []string{"host.toml:", "sandbox.image", "digest"} {
			if !strings.Contains(string(out), says) {
				t.Errorf("tier %s: it does not say %q: %s", tier, says, out)
			}
		}
	}
}

// TestOutOfMemory: what a command takes beyond the sandbox's memory ends the command,
// and the sandbox makes the next call.
func TestOutOfMemory(t *testing.T) {
	for _, tier := range tiers[1:] { // local has no limits
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tier, "limits = { memory_mib = 128 }", "guests/exec")
			shell := func(id, script string) call {
				return call{id, "exec__run", map[string]any{"argv": []string{"sh", "-c", script}}}
			}
			r := w.batch("r", shell("hungry", "tail /dev/zero; exit $?"), shell("next", "echo fine"))
			for i, says := range []string{`"exit_code":137`, `"stdout":"fine\n"`} {
				if got := r.Results[i]; got.IsError || got.tier() != tier || !strings.Contains(string(got.Content), says) {
					t.Errorf("call %s in tier %q is not %s: %s", got.CallID, got.tier(), says, got.Content)
				}
			}
		})
	}
}

// TestEvictedPod throws the Pod out in the middle of a call, as a drain of its node
// does: the call is indeterminate, and its result says that.
func TestEvictedPod(t *testing.T) {
	k := sandboxtest.NeedKube(t)
	b := begin(t, "k8s")
	found, err := filepath.Glob(filepath.Join(b.dir, "data", "sandbox", "e-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the Environments are %v: %v", found, err)
	}
	evict(t, k.Kubeconfig, k.Namespace, "awaken-"+filepath.Base(found[0]))
	if err := b.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &b.stderr)
	}
	if !strings.Contains(b.stdout.String(), "evicted") {
		t.Errorf("it does not say that the Pod was evicted: %s", &b.stdout)
	}
	b.stated(b.stdout.Bytes())
}

// evict asks the API server to.
func evict(t *testing.T, kubeconfig, namespace, pod string) {
	t.Helper()
	askCluster(t, kubeconfig, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction",
		fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, namespace))
}

// askCluster asks an API server with the client certificate of a kubeconfig.
func askCluster(t *testing.T, kubeconfig, method, path, body string) []byte {
	t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &config); err != nil || len(config.Clusters) != 1 || len(config.Users) != 1 {
		t.Fatalf("%s is not of one cluster and one user: %v", kubeconfig, err)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	certificate, err := tls.X509KeyPair(user.Certificate, user.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cluster.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{certificate}}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, cluster.Server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s: %v: %s", method, path, answer.Status, err, said)
	}
	return said
}
