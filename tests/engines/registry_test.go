package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestRegistryServesDigestsOnly(t *testing.T) {
	e := &engines{dir: t.TempDir(), settings: settings{Ports: map[string]int{"registry": 5000}}}
	ref, err := e.putImage("awaken/one", []file{{name: "bin/", mode: 0o755}, {name: "bin/x", mode: 0o755, text: []byte("x")}}, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	name, sum, ok := strings.Cut(strings.TrimPrefix(ref, "127.0.0.1:5000/"), "@")
	if !ok {
		t.Fatalf("reference %q", ref)
	}
	if err := os.WriteFile(e.path("secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	handler := registryHandler(e.path("registry"))
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "http://registry/", http.NoBody)
		r.URL.Path = path // as it is, dots too
		handler.ServeHTTP(w, r)
		return w
	}

	got := ask(http.MethodGet, "/v2/"+name+"/manifests/"+sum)
	if got.Code != http.StatusOK || digest(got.Body.Bytes()) != sum || got.Header().Get("Content-Type") != mediaManifest {
		t.Fatalf("manifest: %d %s %s", got.Code, got.Header(), got.Body)
	}
	var m manifest
	if err := json.Unmarshal(got.Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		got := ask(http.MethodGet, "/v2/"+name+"/blobs/"+d.Digest)
		if got.Code != http.StatusOK || digest(got.Body.Bytes()) != d.Digest || int64(got.Body.Len()) != d.Size {
			t.Errorf("blob %+v: %d, %d bytes", d, got.Code, got.Body.Len())
		}
	}
	if got := ask(http.MethodHead, "/v2/"+name+"/manifests/"+sum); got.Code != http.StatusOK || got.Body.Len() != 0 {
		t.Errorf("HEAD: %d, %d bytes", got.Code, got.Body.Len())
	}

	none := "sha256:" + strings.Repeat("0", 64)
	for _, path := range []string{
		"/v2/" + name + "/manifests/latest",
		"/v2/" + name + "/manifests/" + none,
		"/v2/" + name + "/blobs/" + none,
		"/v2/awaken/other/manifests/" + sum,
		"/v2/../../secret/blobs/" + sum,
		"/v2/" + name + "/blobs/../../secret",
		"/secret",
	} {
		if got := ask(http.MethodGet, path); got.Code != http.StatusNotFound || !strings.Contains(got.Body.String(), "_UNKNOWN") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	if got := ask(http.MethodPut, "/v2/"+name+"/manifests/"+sum); got.Code != http.StatusNotFound {
		t.Errorf("PUT: %d", got.Code)
	}
}

// layout writes a tar of files by name.
func layout(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestImportLayout(t *testing.T) {
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	blob := func(text []byte) string { return "blobs/sha256/" + strings.TrimPrefix(digest(text), "sha256:") }
	layer, config := []byte("layer"), []byte("{}")
	m := encode(manifest{
		SchemaVersion: 2, MediaType: mediaManifest,
		Config: descriptor{MediaType: mediaConfig, Digest: digest(config), Size: 2},
		Layers: []descriptor{{MediaType: mediaLayer, Digest: digest(layer), Size: 5}},
	})
	index := func(media, sum, arch string) []byte {
		return encode(map[string]any{"manifests": []descriptor{
			{MediaType: mediaManifest, Digest: "sha256:none", Platform: &platform{"none", "linux"}},
			{MediaType: media, Digest: sum, Platform: &platform{arch, "linux"}},
		}})
	}
	direct := index(mediaManifest, digest(m), runtime.GOARCH)
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		err   string
	}{
		{"an image", map[string][]byte{"index.json": direct, blob(m): m, blob(config): config, blob(layer): layer}, ""},
		{"names with a dot", map[string][]byte{"./index.json": direct, "./" + blob(m): m, blob(config): config, blob(layer): layer}, ""},
		{"an index in the index", map[string][]byte{
			"index.json": index(mediaIndex, digest(direct), runtime.GOARCH), blob(direct): direct, blob(m): m, blob(config): config, blob(layer): layer,
		}, ""},
		{"no index", map[string][]byte{blob(m): m}, "no index.json"},
		{"a broken index", map[string][]byte{"index.json": []byte("{")}, "index: "},
		{"another platform", map[string][]byte{"index.json": index(mediaManifest, digest(m), "none")}, "no image for linux/"},
		{"no manifest", map[string][]byte{"index.json": direct}, "is missing"},
		{"no layer", map[string][]byte{"index.json": direct, blob(m): m, blob(config): config}, "is missing"},
		{"a changed layer", map[string][]byte{"index.json": direct, blob(m): m, blob(config): config, blob(layer): []byte("other")}, "has the digest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &engines{dir: t.TempDir(), settings: settings{Ports: map[string]int{"registry": 5000}}}
			ref, err := e.importLayout(layout(t, tt.files))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := "127.0.0.1:5000/awaken/loaded@" + digest(m); ref != want {
				t.Errorf("reference %s, want %s", ref, want)
			}
			for _, text := range [][]byte{config, layer} {
				if got, err := os.ReadFile(e.path("registry", "blobs", digest(text))); err != nil || !bytes.Equal(got, text) {
					t.Errorf("blob %q: %v", text, err)
				}
			}
		})
	}
}
