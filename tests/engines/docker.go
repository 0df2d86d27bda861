package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

func needRoot() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("it needs root, and this is user %d", os.Geteuid())
	}
	return nil
}

// hardRun are options of run that a sandbox has and that some machines refuse.
var hardRun = []string{
	"--rm", "--init", "--network=none", "--read-only", "--user=65534:65534", "--cap-drop=ALL", "--security-opt=no-new-privileges",
	"--memory=64m", "--cpus=1", "--pids-limit=64",
}

// startDocker starts a dockerd with a containerd of its own. Its bridge is ours, and
// it leaves the packet filter of the machine alone: containers reach the machine by
// the bridge and nothing behind it.
func (e *engines) startDocker(ctx context.Context, image string) error {
	if err := needRoot(); err != nil {
		return err
	}
	daemon, err := find("dockerd", "docker.io")
	if err != nil {
		return err
	}
	client, err := find("docker", "docker.io")
	if err != nil {
		return err
	}
	bridge := "awd" + e.settings.ID
	if err := e.makeBridge(ctx, bridge, "docker"); err != nil {
		return err
	}
	if err := e.makeCgroup(); err != nil {
		return err
	}
	host := "unix://" + e.path("docker.sock")
	for _, name := range []string{"docker.pid", "docker-run/containerd/containerd.pid"} {
		if err := removeStale(e.path(name)); err != nil {
			return err
		}
	}
	err = e.start(ctx, "dockerd", []string{
		daemon,
		"--host=" + host, "--pidfile=" + e.path("docker.pid"),
		"--data-root=" + e.path("docker"), "--exec-root=" + e.path("docker-run"),
		"--bridge=" + bridge, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
		"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/" + e.cgroup() + "/docker",
	}, func(ctx context.Context) error {
		_, err := output(ctx, client, "--host="+host, "version")
		return err
	})
	if err != nil {
		return err
	}
	if err := pullDocker(ctx, client, host, image); err != nil {
		return err
	}
	if _, err := output(ctx, slices.Concat([]string{client, "--host=" + host, "run"}, hardRun, []string{image, "true"})...); err != nil {
		return err
	}
	e.say(func(r *report) { r.Docker = &docker{Binary: client, Host: host, Image: image} })
	return nil
}

// removeStale removes a file with the number of a process that has ended. dockerd takes
// one that was killed for running as long as nobody has reaped it.
func removeStale(name string) error {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if state, _, err := stat(pid); err == nil && state != "Z" && state != "X" {
		return nil
	}
	return os.Remove(name)
}

func pullDocker(ctx context.Context, client, host, image string) error {
	_, err := output(ctx, client, "--host="+host, "pull", "--quiet", image)
	return err
}
