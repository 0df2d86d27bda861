package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
)

// load brings a tar of an OCI layout into the registry, and from there into every
// engine that runs. The reference it returns is that of this machine's platform.
func (e *engines) load(ctx context.Context, name string) (string, error) {
	if err := readJSON(e.settings.Report, &e.said); err != nil {
		return "", fmt.Errorf("no engines to load it into: %w", err)
	}
	ref, err := e.importLayout(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if d := e.said.Docker; d != nil {
		if err := pullDocker(ctx, d.Binary, d.Host, ref); err != nil {
			return "", err
		}
	}
	if p := e.said.Podman; p != nil {
		if err := pullPodman(ctx, p.Binary, p.Args, ref); err != nil {
			return "", err
		}
	}
	if e.said.Kube != nil {
		if err := e.pullContainerd(ctx, ref); err != nil {
			return "", err
		}
	}
	return ref, nil
}

var blobPath = regexp.MustCompile(`^blobs/sha256/[0-9a-f]{64}$`)

func (e *engines) importLayout(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	blobs := map[string][]byte{}
	var index []byte
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		entry := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || entry != "index.json" && !blobPath.MatchString(entry) {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return "", err
		}
		if entry == "index.json" {
			index = text
			continue
		}
		sum := digest(text)
		if sum != "sha256:"+path.Base(entry) {
			return "", fmt.Errorf("%s has the digest %s", entry, sum)
		}
		blobs[sum] = text
	}
	if index == nil {
		return "", errors.New("it has no index.json: it is no OCI layout")
	}
	sum, err := pick(index, blobs)
	if err != nil {
		return "", err
	}
	var m manifest
	if err := json.Unmarshal(blobs[sum], &m); err != nil {
		return "", fmt.Errorf("manifest %s: %w", sum, err)
	}
	for _, d := range append(m.Layers, m.Config) {
		text, ok := blobs[d.Digest]
		if !ok {
			return "", fmt.Errorf("blob %s is missing", d.Digest)
		}
		if _, err := e.putBlob(d.MediaType, text); err != nil {
			return "", err
		}
	}
	return e.putManifest("awaken/loaded", blobs[sum])
}

// pick finds the manifest for this machine in an index, or in an index that it names.
func pick(index []byte, blobs map[string][]byte) (string, error) {
	var in struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(index, &in); err != nil {
		return "", fmt.Errorf("index: %w", err)
	}
	var there []string
	for _, d := range in.Manifests {
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			there = append(there, p.OS+"/"+p.Architecture)
			continue
		}
		text, ok := blobs[d.Digest]
		if !ok {
			return "", fmt.Errorf("blob %s is missing", d.Digest)
		}
		if d.MediaType == mediaIndex {
			return pick(text, blobs)
		}
		return d.Digest, nil
	}
	return "", fmt.Errorf("no image for linux/%s, only for %q", runtime.GOARCH, strings.Join(there, ", "))
}
