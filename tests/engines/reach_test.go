package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func TestLoadReachesEveryEngine(t *testing.T) {
	docker, podman, kube := sandboxtest.NeedDocker(t), sandboxtest.NeedPodman(t), sandboxtest.NeedKube(t)
	set := sandboxtest.Engines(t)
	e := &engines{dir: t.TempDir(), settings: settings{Ports: map[string]int{}}}
	// Of its own, so that no engine has it from another run.
	ref, err := e.putImage("awaken/mine", []file{{name: "etc/name", mode: 0o644, text: []byte(e.dir)}}, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	_, sum, _ := strings.Cut(ref, "@")
	text := readBlob(t, e.path("registry", "manifests", "awaken", "mine", sum))
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	index, err := json.Marshal(map[string]any{"manifests": []descriptor{{MediaType: mediaManifest, Digest: sum}}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"index.json": index, "blobs/sha256/" + strings.TrimPrefix(sum, "sha256:"): text}
	for _, d := range append(m.Layers, m.Config) {
		files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")] = readBlob(t, e.path("registry", "blobs", d.Digest))
	}
	loaded := set.Load(t, layout(t, files))
	if !strings.HasSuffix(loaded, "@"+sum) {
		t.Fatalf("reference %q, want one that ends with the digest %s", loaded, sum)
	}
	there := func(argv ...string) {
		t.Helper()
		text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, text)
		}
	}
	there(docker.Binary, "--host", docker.Host, "image", "inspect", loaded)
	there(slices.Concat([]string{podman.Binary}, podman.Args, []string{"image", "exists", loaded})...)
	ctr, err := find("ctr", "containerd")
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), ctr, "--address", set.State+"/containerd.sock", "--namespace", "k8s.io", "images", "list", "--quiet").Output()
	if err != nil || !strings.Contains(string(list), loaded) {
		t.Errorf("node %s has no %s: %v", kube.Node, loaded, err)
	}
}

func readBlob(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// clientOf is what a kubeconfig lets its user ask.
func clientOf(t *testing.T, name string) *apiClient {
	t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := readJSON(name, &config); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13}}
	t.Cleanup(transport.CloseIdleConnections)
	client := newPlainClient()
	client.Transport = transport
	return &apiClient{base: config.Clusters[0].Cluster.Server, http: client}
}

func TestUserIsAllowedWhatARoleSays(t *testing.T) {
	kube := sandboxtest.NeedKube(t)
	user := clientOf(t, sandboxtest.Engines(t).Kubeconfig(t, "engines-test", "testers"))
	admin := clientOf(t, kube.Kubeconfig)
	pods := "/api/v1/namespaces/" + kube.Namespace + "/pods"
	if err := user.do(t.Context(), http.MethodGet, pods, nil, nil); !isStatus(err, http.StatusForbidden) {
		t.Errorf("a user without a role lists Pods: %v", err)
	}
	roles := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + kube.Namespace
	t.Cleanup(func() {
		for _, path := range []string{"/rolebindings/engines-test", "/roles/engines-test"} {
			if err := admin.do(context.WithoutCancel(t.Context()), http.MethodDelete, roles+path, nil, nil); err != nil {
				t.Error(err)
			}
		}
	})
	for path, object := range map[string]any{
		"/roles": map[string]any{
			"metadata": map[string]any{"name": "engines-test"},
			"rules":    []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"list"}}},
		},
		"/rolebindings": map[string]any{
			"metadata": map[string]any{"name": "engines-test"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "engines-test"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "testers"}},
		},
	} {
		if err := admin.create(t.Context(), roles+path, object); err != nil {
			t.Fatal(err)
		}
	}
	// The API server hears of a role a moment later.
	e := &engines{dir: t.TempDir()}
	if err := e.await(t.Context(), "role", nil, func(ctx context.Context) error { return user.do(ctx, http.MethodGet, pods, nil, nil) }); err != nil {
		t.Errorf("a user whose group has the role: %v", err)
	}
	if err := user.do(t.Context(), http.MethodGet, "/api/v1/nodes", nil, nil); !isStatus(err, http.StatusForbidden) {
		t.Errorf("a user lists what the role does not name: %v", err)
	}
}
