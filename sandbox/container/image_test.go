package container

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// LoadImage makes an image of nothing but an empty folder, and returns its id. It is
// removed with the test.
func loadImage(t *testing.T, tier *Tier, architecture string, volumes ...string) string {
	t.Helper()
	layer := archive(t, []tarFile{{"test/", nil}})
	config := map[string]any{"Labels": map[string]string{"test": rand.Text()}} // no other test's image has this id
	declared := map[string]struct{}{}
	for _, v := range volumes {
		declared[v] = struct{}{}
	}
	config["Volumes"] = declared
	settings := encode(t, map[string]any{
		"architecture": architecture, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	sum := fmt.Sprintf("%x", sha256.Sum256(settings))
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, archive(t, []tarFile{
		{"layer.tar", layer}, {sum + ".json", settings},
		{"manifest.json", encode(t, []map[string]any{{"Config": sum + ".json", "Layers": []string{"layer.tar"}}})},
	}), 0o600); err != nil {
		t.Fatal(err)
	}
	ask(t, tier, "load", "--quiet", "--input", file)
	t.Cleanup(func() { ask(t, tier, "rmi", "--force", sum) })
	return "sha256:" + sum
}

type tarFile struct {
	name string // with a final slash: a folder
	text []byte
}

func archive(t *testing.T, files []tarFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o755, Size: int64(len(f.text))}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(f.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Docker makes a folder of the machine for each volume that an image declares, where
// a tool may write without a limit. Podman is told not to.
func TestImageWithVolume(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		o.Image = loadImage(t, newTier(t, o), runtime.GOARCH, "/data")
		tier := newTier(t, o)
		if o.Engine == sandbox.TierDocker {
			for name, err := range map[string]error{"Check": tier.Check(t.Context()), "Start": startError(t, tier)} {
				if sandbox.ReasonOf(err) != sandbox.ReasonUnsupported || !strings.Contains(err.Error(), "volume /data") {
					t.Errorf("%s: %v", name, err)
				}
			}
			return
		}
		s := start(t, tier, newSpec(t))
		if got := s.pull("write /data/a"); got == "ok" {
			t.Error("the image's volume can be written")
		}
		e, err := s.Inspect(t.Context())
		if err != nil || e.Properties[sandbox.PropertyFilesystem].State != sandbox.Enforced {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestImageOfAnotherArchitecture(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		o.Image = loadImage(t, newTier(t, o), other)
		tier := newTier(t, o)
		for name, err := range map[string]error{"Check": tier.Check(t.Context()), "Start": startError(t, tier)} {
			if sandbox.ReasonOf(err) != sandbox.ReasonUnsupported || !strings.Contains(err.Error(), "linux/"+other) || !strings.Contains(err.Error(), "for linux/"+runtime.GOARCH) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A registry that answers, and has no such image.
func TestImageNotInRegistry(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		name, _, _ := strings.Cut(o.Image, "@")
		o.Image, o.Pull = name+"@sha256:"+strings.Repeat("0", 64), true
		err := newTier(t, o).Check(t.Context())
		if sandbox.ReasonOf(err) != sandbox.ReasonImage || !strings.Contains(err.Error(), "pull "+o.Image) {
			t.Errorf("%v", err)
		}
	})
}

// An engine that says that a container runs another image than the one that was asked
// for is not believed about anything: the container is stopped.
func TestAnotherImageRuns(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		liar := filepath.Join(t.TempDir(), "engine")
		script := `#!/bin/sh
case " $* " in
*" container inspect "*) "$REAL" "$@" | sed -E 's/"Image": "(sha256:)?[0-9a-f]{64}"/"Image": "sha256:` + strings.Repeat("1", 64) + `"/' ;;
*) exec "$REAL" "$@" ;;
esac
`
		script = strings.ReplaceAll(script, "$REAL", o.Command[0])
		if err := os.WriteFile(liar, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		honest, spec := newTier(t, o), newSpec(t)
		o.Command = []string{liar}
		s := start(t, newTier(t, o), spec)
		e, err := s.Inspect(t.Context())
		if sandbox.ReasonOf(err) != sandbox.ReasonDigest || !strings.Contains(err.Error(), "sha256:1111") || !strings.Contains(err.Error(), o.Image) {
			t.Errorf("%+v, %v", e, err)
		}
		if err := s.wait(); sandbox.ReasonOf(err) != sandbox.ReasonKilled {
			t.Errorf("%v", err)
		}
		if left, err := honest.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 0 {
			t.Errorf("left: %+v, %v", left, err)
		}
	})
}

// StartError is what a Start fails with.
func startError(t *testing.T, tier *Tier) error {
	t.Helper()
	i, err := tier.Start(t.Context(), newSpec(t))
	if err == nil {
		stop(t, i)
	}
	return err
}
