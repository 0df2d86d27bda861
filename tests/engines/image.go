package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *platform `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// file is an entry of a layer.
type file struct {
	name string // without a leading slash; with a final one a folder
	mode int64
	link string // a symbolic link's target
	text []byte
}

// buildImages puts the images of the tests into the registry: one with busybox's
// commands, which is returned, and the one that holds a Pod's namespaces.
func (e *engines) buildImages(ctx context.Context) (base, pause string, err error) {
	busybox, err := find("busybox", "busybox-static")
	if err != nil {
		return "", "", err
	}
	commands, err := os.ReadFile(busybox)
	if err != nil {
		return "", "", err
	}
	list, err := output(ctx, busybox, "--list")
	if err != nil {
		return "", "", err
	}
	inside, err := e.buildInside(ctx)
	if err != nil {
		return "", "", err
	}
	users := "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
	files := []file{
		{name: "bin/", mode: 0o755}, {name: "dev/", mode: 0o755}, {name: "etc/", mode: 0o755},
		{name: "home/", mode: 0o755}, {name: "proc/", mode: 0o755}, {name: "suid/", mode: 0o755},
		{name: "sys/", mode: 0o755}, {name: "tmp/", mode: 0o1777}, {name: "var/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, text: []byte(users)},
		{name: "etc/group", mode: 0o644, text: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{name: "suid/ids", mode: 0o4755, text: inside},
		{name: "bin/busybox", mode: 0o755, text: commands},
		{name: "bin/dial", mode: 0o755, text: inside},
	}
	for command := range strings.FieldsSeq(list) {
		if command != "busybox" {
			files = append(files, file{name: "bin/" + command, mode: 0o777, link: "busybox"})
		}
	}
	base, err = e.putImage("awaken/busybox", files, map[string]any{"Cmd": []string{"/bin/sh"}, "Env": []string{"PATH=/bin"}})
	if err != nil {
		return "", "", err
	}
	pause, err = e.putImage("awaken/pause", []file{{name: "pause", mode: 0o755, text: inside}},
		map[string]any{"Entrypoint": []string{"/pause"}, "User": "65534:65534"})
	return base, pause, err
}

// buildInside compiles tests/engines/inside, once for each folder of engines.
func (e *engines) buildInside(ctx context.Context) ([]byte, error) {
	out := e.path("inside")
	if text, err := os.ReadFile(out); err == nil {
		return text, nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./tests/engines/inside") //nolint:gosec // our own package
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./tests/engines/inside: %w; run it in the repository\n%s", err, text)
	}
	return os.ReadFile(out)
}

func (e *engines) putImage(name string, files []file, config map[string]any) (string, error) {
	var plain, packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	w := tar.NewWriter(io.MultiWriter(&plain, zip))
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			return "", err
		}
		if _, err := w.Write(f.text); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	settings, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}},
	})
	if err != nil {
		return "", err
	}
	m := manifest{SchemaVersion: 2, MediaType: mediaManifest}
	if m.Config, err = e.putBlob(mediaConfig, settings); err != nil {
		return "", err
	}
	layer, err := e.putBlob(mediaLayer, packed.Bytes())
	if err != nil {
		return "", err
	}
	m.Layers = []descriptor{layer}
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	return e.putManifest(name, text)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (e *engines) putBlob(media string, text []byte) (descriptor, error) {
	d := descriptor{MediaType: media, Digest: digest(text), Size: int64(len(text))}
	return d, putFile(e.path("registry", "blobs", d.Digest), text)
}

// putManifest makes the registry answer for name@digest, and returns that reference.
func (e *engines) putManifest(name string, text []byte) (string, error) {
	d := digest(text)
	if err := putFile(e.path("registry", "manifests", name, d), text); err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d/%s@%s", e.settings.Ports["registry"], name, d), nil
}

func putFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	part := name + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, name)
}
