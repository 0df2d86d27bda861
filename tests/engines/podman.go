package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// startPodman finds out how podman runs containers on this machine. It is no daemon:
// what is kept is the folder with its storage.
func (e *engines) startPodman(ctx context.Context, image string) error {
	if err := needRoot(); err != nil {
		return err
	}
	binary, err := find("podman", "podman")
	if err != nil {
		return err
	}
	if err := e.writePodmanNetwork(); err != nil {
		return err
	}
	common := []string{
		"--root=" + e.path("podman"), "--runroot=" + e.path("podman-run"), "--tmpdir=" + e.path("podman-run", "tmp"),
		"--network-config-dir=" + e.path("podman-net"), "--cgroup-manager=cgroupfs", "--events-backend=file",
	}
	if err := pullPodman(ctx, binary, common, image); err != nil {
		return err
	}
	// Older crun refuses the hybrid control groups that Debian 12 may have, and raising
	// a limit is not permitted everywhere. Podman's own choices come first.
	var failed error
	for _, global := range [][]string{nil, {"--runtime=runc"}} {
		for _, run := range [][]string{{}, {"--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"}} {
			args := append(slices.Clone(common), global...)
			try := slices.Concat([]string{binary}, args, []string{"run"}, hardRun, run, []string{image, "true"})
			if _, err := output(ctx, try...); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			e.say(func(r *report) { r.Podman = &podman{Binary: binary, Args: args, RunArgs: run, Image: image} })
			return nil
		}
	}
	return fmt.Errorf("podman runs no container:\n%w", failed)
}

func pullPodman(ctx context.Context, binary string, args []string, image string) error {
	_, err := output(ctx, slices.Concat([]string{binary}, args, []string{"pull", "--quiet", "--tls-verify=false", image})...)
	return err
}

// writePodmanNetwork gives podman's default network a bridge of ours, for each of the
// two programs that may make its networks: netavark and CNI's plugins.
func (e *engines) writePodmanNetwork() error {
	name, bridge, n := "podman", "awp"+e.settings.ID, e.settings.Nets["podman"]
	id := sha256.Sum256([]byte(name))
	err := writeJSON(e.path("podman-net", "podman.json"), map[string]any{
		"name": name, "id": hex.EncodeToString(id[:]), "driver": "bridge", "network_interface": bridge,
		"created": "2026-01-01T00:00:00Z", "ipv6_enabled": false, "internal": false, "dns_enabled": false,
		"subnets":      []any{map[string]any{"subnet": fmt.Sprintf("10.%d.0.0/24", n), "gateway": fmt.Sprintf("10.%d.0.1", n)}},
		"ipam_options": map[string]any{"driver": "host-local"},
	})
	if err != nil {
		return err
	}
	return e.writeNetwork(e.path("podman-net", "podman.conflist"), name, bridge, "podman")
}

// writeNetwork writes a CNI network with one bridge.
func (e *engines) writeNetwork(file, name, bridge, net string) error {
	n := e.settings.Nets[net]
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0", "name": name,
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": bridge, "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": e.path("addresses"),
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				"ranges": []any{[]any{map[string]any{
					"subnet": fmt.Sprintf("10.%d.0.0/24", n), "gateway": fmt.Sprintf("10.%d.0.1", n),
				}}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
