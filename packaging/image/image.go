package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// NobodyID is the user and group of the Hand: the one that the tiers give it too.
const nobodyID = 65532

// The media types of the OCI image specification, v1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Source is what an image is made of. The same source gives the same bytes.
type source struct {
	Hand    []byte // the binary, static, for Arch
	Arch    string // "amd64" or "arm64", as GOARCH says it
	Version string
	Name    string // name:tag that engines show after loading it; it is in no digest
}

// Built is an image as a file: an OCI layout that holds a docker archive too, so that
// docker load, podman load and ctr images import all read it.
type built struct {
	Tar    []byte
	Digest string // of the manifest: name@Digest pins it where it came from a registry
	ID     string // of the configuration: pins it where it was loaded from the file
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// Build makes the image. It has no shell, no libraries and no packages: nothing but
// the Hand, the two files that name its user, and the folders that tiers mount over.
func build(s source) (*built, error) {
	layer, err := pack([]entry{
		{name: "awaken/", mode: 0o755},
		{name: "awaken/hand", mode: 0o755, text: s.Hand},
		{name: "awaken/state/", mode: 0o700, owner: nobodyID},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", nobodyID)},
		{name: "etc/passwd", mode: 0o644, text: fmt.Appendf(nil,
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/workspace:/sbin/nologin\n", nobodyID, nobodyID)},
		{name: "tmp/", mode: 0o1777},
		{name: "workspace/", mode: 0o755, owner: nobodyID},
	})
	if err != nil {
		return nil, err
	}
	epoch := time.Unix(0, 0).UTC().Format(time.RFC3339)
	config, err := json.Marshal(map[string]any{
		"created": epoch, "architecture": s.Arch, "os": "linux",
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%d", nobodyID, nobodyID), "WorkingDir": "/workspace",
			"Entrypoint": []string{"/awaken/hand"}, "Cmd": []string{"serve"},
			"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			"Labels": map[string]string{
				"org.opencontainers.image.title":       "awaken-hand",
				"org.opencontainers.image.description": "What runs inside a sandbox of awaken-host",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     s.Version,
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
		"history": []map[string]any{{"created": epoch, "created_by": "awaken-host packaging/image"}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": describe(typeConfig, config), "layers": []descriptor{describe(typeLayer, layer)},
	})
	if err != nil {
		return nil, err
	}
	d := describe(typeManifest, manifest)
	d.Platform = &platform{Architecture: s.Arch, OS: "linux"}
	// Containerd wants the whole name, and the specification's own key has the tag alone.
	_, tag, _ := strings.Cut(s.Name[strings.LastIndexByte(s.Name, '/')+1:], ":")
	d.Annotations = map[string]string{"io.containerd.image.name": s.Name, "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{d}})
	if err != nil {
		return nil, err
	}
	docker, err := json.Marshal([]map[string]any{
		{"Config": blob(config), "RepoTags": []string{s.Name}, "Layers": []string{blob(layer)}},
	})
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
		{name: blob(layer), mode: 0o644, text: layer}, {name: blob(config), mode: 0o644, text: config},
		{name: blob(manifest), mode: 0o644, text: manifest},
		{name: "index.json", mode: 0o644, text: index}, {name: "manifest.json", mode: 0o644, text: docker},
		{name: "oci-layout", mode: 0o644, text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	all, err := pack(entries)
	if err != nil {
		return nil, err
	}
	return &built{Tar: all, Digest: d.Digest, ID: digestOf(config)}, nil
}

func describe(mediaType string, text []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digestOf(text), Size: len(text)}
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blob(text []byte) string { return "blobs/sha256/" + strings.TrimPrefix(digestOf(text), "sha256:") }

// Entry is a file of a tar, or a folder where its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	text  []byte
}

// Pack writes a tar that depends on nothing but its entries: no times, no names of
// users, no compression, whose bytes may differ between releases of a compressor.
func pack(entries []entry) ([]byte, error) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.text)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := io.Copy(w, bytes.NewReader(e.text)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}
