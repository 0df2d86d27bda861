package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func testSource() source {
	return source{Hand: []byte("not really a program"), Arch: "amd64", Version: "v1.2.3", Name: "localhost/awaken-host/test:v1"}
}

// The digest of this image is that of every machine and every release of Go.
func TestSameBytes(t *testing.T) {
	one, err := build(testSource())
	if err != nil {
		t.Fatal(err)
	}
	two, err := build(testSource())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Tar, two.Tar) || one.Digest != two.Digest || one.ID != two.ID {
		t.Error("two builds differ")
	}
	const digest = "sha256:5a12aafe216282098596eddcd3da32dd980a4fb070def8dd6d11bb452417b48c"
	if one.Digest != digest {
		t.Errorf("the digest is %s, and was %s: an image of the same Hand has another digest now", one.Digest, digest)
	}
	other := testSource()
	other.Hand = []byte("another")
	if three, err := build(other); err != nil || three.Digest == one.Digest || three.ID == one.ID {
		t.Errorf("another Hand, and the digest is the same (%v)", err)
	}
	renamed := testSource()
	renamed.Name = "localhost/other:v2"
	if three, err := build(renamed); err != nil || three.Digest != one.Digest {
		t.Errorf("the name is in the digest (%v)", err)
	}
}

func TestLayout(t *testing.T) {
	image, err := build(testSource())
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, image.Tar)
	for name, text := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum != "" && digestOf(text) != "sha256:"+sum {
			t.Errorf("%s has the digest %s", name, digestOf(text))
		}
	}
	var index struct{ Manifests []descriptor }
	decode(t, files["index.json"], &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Digest != image.Digest {
		t.Fatalf("index: %+v", index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, files["blobs/sha256/"+strings.TrimPrefix(image.Digest, "sha256:")], &manifest)
	if manifest.Config.Digest != image.ID || len(manifest.Layers) != 1 {
		t.Fatalf("manifest: %+v", manifest)
	}
	layer := untar(t, files["blobs/sha256/"+strings.TrimPrefix(manifest.Layers[0].Digest, "sha256:")])
	var names []string
	for _, name := range []string{"awaken/", "awaken/hand", "awaken/state/", "etc/", "etc/group", "etc/passwd", "tmp/", "workspace/"} {
		if _, there := layer[name]; !there {
			names = append(names, name)
		}
	}
	if len(names) > 0 || len(layer) != 8 {
		t.Errorf("missing %v, of %d entries", names, len(layer))
	}
	var archive []struct {
		Config string
		Layers []string
	}
	decode(t, files["manifest.json"], &archive)
	if len(archive) != 1 || files[archive[0].Config] == nil || files[archive[0].Layers[0]] == nil {
		t.Errorf("docker archive: %+v", archive)
	}
}

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func untar(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 {
			t.Errorf("%s has a time", h.Name)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "-hand and -out"},
		{"an argument", []string{"x"}, "unknown argument"},
		{"no program", []string{"-hand", script, "-arch", "amd64", "-out", "x"}, "script"},
		{"an unknown architecture", []string{"-hand", script, "-arch", "vax", "-out", "x"}, "amd64 and arm64"},
		{"of another architecture", []string{"-hand", hand(t), "-arch", other, "-out", "x"}, "-arch says"},
		{"a name without tag", []string{"-hand", hand(t), "-arch", runtime.GOARCH, "-out", "x", "-name", "a"}, "name:tag"},
	} {
		err := run(c.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Hand builds the real one, for this architecture.
func hand(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "hand")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v9.8.7", "-o", name, "../../cmd/awaken-hand")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

// Both engines load the file, call the image by the digests that were printed, and
// run the Hand in it.
func TestEnginesRunIt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	name := "localhost/awaken-host/image-test:v1"
	var said bytes.Buffer
	if err := run([]string{"-hand", hand(t), "-arch", runtime.GOARCH, "-version", "v9.8.7", "-name", name, "-out", out}, &said, io.Discard); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(said.String())
	id := words[len(words)-1]
	check := func(t *testing.T, client, options []string) {
		engine := func(args ...string) string {
			cmd := exec.CommandContext(t.Context(), client[0], append(client[1:len(client):len(client)], args...)...)
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, text)
			}
			return string(text)
		}
		engine("load", "--input", out)
		t.Cleanup(func() {
			cmd := exec.Command(client[0], append(client[1:len(client):len(client)], "rmi", "--force", id)...)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("removing the image: %v: %s", err, text)
			}
		})
		args := append([]string{"run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--pull=never"}, options...)
		if got := engine(append(args, id, "version")...); !strings.Contains(got, "v9.8.7") {
			t.Errorf("version: %s", got)
		}
	}
	t.Run("docker", func(t *testing.T) {
		d := sandboxtest.NeedDocker(t)
		check(t, []string{d.Binary, "--host", d.Host}, nil)
	})
	t.Run("podman", func(t *testing.T) {
		p := sandboxtest.NeedPodman(t)
		check(t, append([]string{p.Binary}, p.Args...), p.RunArgs)
	})
}
