package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// startRegistry serves the images of the tests on loopback, by digest only, as an
// operator's registry would: engines know a digest for certain only of what they
// pulled.
func (e *engines) startRegistry(ctx context.Context) (string, error) {
	base, _, err := e.buildImages(ctx)
	if err != nil {
		return "", err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", e.settings.Ports["registry"])
	err = e.start(ctx, "registry", []string{e.path("engines"), "registry", e.path("registry"), addr}, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, "http://"+addr+"/v2/")
	})
	return base, err
}

func get(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

// serveRegistry serves dir at addr until it is killed: the part of the OCI
// distribution specification that pulling by digest needs.
func serveRegistry(dir, addr string) error {
	s := &http.Server{Addr: addr, Handler: registryHandler(dir), ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
}

var registryPath = regexp.MustCompile(`^/v2/([a-z0-9]+(?:[/_-][a-z0-9]+)*)/(manifests|blobs)/(sha256:[0-9a-f]{64})$`)

func registryHandler(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		m := registryPath.FindStringSubmatch(r.URL.Path)
		if m == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuse(w, "MANIFEST_UNKNOWN", "only digests are served here")
			return
		}
		name, kind, sum := m[1], m[2], m[3]
		media, file := "application/octet-stream", filepath.Join(dir, "blobs", sum)
		if kind == "manifests" {
			file = filepath.Join(dir, "manifests", name, sum)
		}
		text, err := os.ReadFile(file) //nolint:gosec // of names that the pattern lets through
		if err != nil {
			code := map[string]string{"manifests": "MANIFEST_UNKNOWN", "blobs": "BLOB_UNKNOWN"}[kind]
			refuse(w, code, name+"@"+sum+" is not here")
			return
		}
		if kind == "manifests" {
			var typed struct {
				MediaType string `json:"mediaType"`
			}
			if json.Unmarshal(text, &typed) != nil || typed.MediaType == "" {
				typed.MediaType = mediaManifest
			}
			media = typed.MediaType
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.Header().Set("Docker-Content-Digest", sum)
		if r.Method == http.MethodGet {
			_, _ = w.Write(text) //nolint:gosec // a client that went away is told nothing
		}
	})
}

func refuse(w http.ResponseWriter, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}
