package main

import (
	"context"
	"fmt"
)

// startContainerd starts the containerd that the kubelet runs Pods in.
func (e *engines) startContainerd(ctx context.Context, programs map[string]string) error {
	_, pause, err := e.buildImages(ctx)
	if err != nil {
		return err
	}
	registry := fmt.Sprintf("127.0.0.1:%d", e.settings.Ports["registry"])
	if err := e.writeNetwork(e.path("kube", "cni", "bridge.conflist"), e.cgroup(), "awk"+e.settings.ID, "kube"); err != nil {
		return err
	}
	// Plain HTTP is what the registry on loopback speaks.
	if err := writeText(e.path("kube", "registries", registry, "hosts.toml"), "server = "+quote("http://"+registry)+"\n"); err != nil {
		return err
	}
	config := e.path("kube", "containerd.toml")
	err = writeText(config, `version = 2
root = `+quote(e.path("containerd"))+`
state = `+quote(e.path("containerd-run"))+`
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
address = `+quote(e.path("containerd.sock"))+`

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = `+quote(pause)+`
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
tolerate_missing_hugetlb_controller = true
stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = `+quote(e.path("kube", "cni"))+`

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = `+quote(e.path("kube", "registries"))+`
`)
	if err != nil {
		return err
	}
	return e.start(ctx, "containerd", []string{programs["containerd"], "--config", config}, func(ctx context.Context) error {
		_, err := output(ctx, programs["ctr"], "--address", e.path("containerd.sock"), "version")
		return err
	})
}

// pullContainerd brings an image to the node, so that a Pod needs no pull.
func (e *engines) pullContainerd(ctx context.Context, image string) error {
	ctr, err := find("ctr", "containerd")
	if err != nil {
		return err
	}
	_, err = output(ctx, ctr, "--address", e.path("containerd.sock"), "--namespace", "k8s.io", "images", "pull", "--plain-http", image)
	return err
}
