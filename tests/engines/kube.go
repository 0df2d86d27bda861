package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	nodeName  = "localhost" // the API server reaches the kubelet by it; a node's address may not be a loopback one
	namespace = "awaken-test"
)

// startKube starts a Kubernetes with one node, and runs a Pod on it. There is no
// controller manager: what it would make for a namespace is made here, and nothing
// taints nodes.
func (e *engines) startKube(ctx context.Context, image string) error {
	if err := needRoot(); err != nil {
		return err
	}
	programs := map[string]string{}
	for _, name := range []string{"kube-apiserver", "kube-scheduler", "kubelet"} {
		programs[name] = filepath.Join(e.settings.Bin, name)
		if _, err := os.Stat(programs[name]); err != nil {
			return fmt.Errorf("%s is missing: make kube", programs[name])
		}
	}
	for name, pkg := range map[string]string{"etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "runc": "runc"} {
		file, err := find(name, pkg)
		if err != nil {
			return err
		}
		programs[name] = file
	}
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		return fmt.Errorf("%w: apt-get install containernetworking-plugins", err)
	}
	if err := e.writeCertificates(); err != nil {
		return err
	}
	for _, name := range []string{"admin", "scheduler", "node"} {
		if _, err := e.writeKubeconfig(name); err != nil {
			return err
		}
	}
	if err := e.makeCgroup(); err != nil {
		return err
	}

	api, err := e.apiClient()
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error { return e.startContainerd(ctx, programs) })
	g.Go(func() error {
		if err := e.startEtcd(ctx, programs); err != nil {
			return err
		}
		return e.startAPIServer(ctx, programs, api)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if err := e.startScheduler(ctx, programs, api); err != nil {
		return err
	}
	if err := e.startKubelet(ctx, programs, api); err != nil {
		return err
	}
	if err := api.makeNamespace(ctx, e.pki("ca.crt")); err != nil {
		return err
	}
	if err := e.pullContainerd(ctx, image); err != nil {
		return err
	}
	if err := api.tryPod(ctx, image); err != nil {
		return fmt.Errorf("no Pod runs: %w\n%s", err, tail(e.path("logs", "kubelet.log")))
	}
	e.say(func(r *report) {
		r.Kube = &kube{Kubeconfig: e.path("kube", "admin.kubeconfig"), Namespace: namespace, Node: nodeName, Image: image}
	})
	return nil
}

func (e *engines) startEtcd(ctx context.Context, programs map[string]string) error {
	client := fmt.Sprintf("http://127.0.0.1:%d", e.settings.Ports["etcd"])
	peer := fmt.Sprintf("http://127.0.0.1:%d", e.settings.Ports["etcd-peer"])
	api := newPlainClient()
	return e.start(ctx, "etcd", []string{
		programs["etcd"], "--name=test", "--data-dir=" + e.path("kube", "etcd"), "--logger=zap",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
	}, func(ctx context.Context) error { return get(ctx, api, client+"/health") })
}

func (e *engines) startAPIServer(ctx context.Context, programs map[string]string, api *apiClient) error {
	return e.start(ctx, "kube-apiserver", []string{
		programs["kube-apiserver"],
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", e.settings.Ports["etcd"]),
		fmt.Sprintf("--secure-port=%d", e.settings.Ports["apiserver"]),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // it refuses loopback addresses
		"--authorization-mode=Node,RBAC", "--anonymous-auth=false",
		"--disable-admission-plugins=TaintNodesByCondition", // a controller would take the taint away
		"--client-ca-file=" + e.pki("ca.crt"),
		"--tls-cert-file=" + e.pki("apiserver.crt"), "--tls-private-key-file=" + e.pki("apiserver.key"),
		"--cert-dir=" + e.path("kube", "apiserver"),
		"--kubelet-client-certificate=" + e.pki("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + e.pki("apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=Hostname",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + e.pki("service-accounts.pub"),
		"--service-account-signing-key-file=" + e.pki("service-accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/24",
		"--allow-privileged=true",
	}, func(ctx context.Context) error { return api.ready(ctx) })
}

// startScheduler runs the scheduler that places Pods. Where it is ready the Pod that
// is tried last tells.
func (e *engines) startScheduler(ctx context.Context, programs map[string]string, _ *apiClient) error {
	config := e.path("kube", "scheduler.json")
	err := writeJSON(config, map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": e.path("kube", "scheduler.kubeconfig")},
		"leaderElection":   map[string]any{"leaderElect": false},
	})
	if err != nil {
		return err
	}
	return e.start(ctx, "kube-scheduler", []string{programs["kube-scheduler"], "--config=" + config, "--secure-port=0"},
		func(context.Context) error { return nil })
}

func (e *engines) startKubelet(ctx context.Context, programs map[string]string, api *apiClient) error {
	config := e.path("kube", "kubelet.json")
	err := writeJSON(config, map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": "127.0.0.1", "port": e.settings.Ports["kubelet"], "readOnlyPort": 0, "healthzPort": 0,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": e.pki("ca.crt")},
		},
		"authorization":                  map[string]any{"mode": "Webhook"},
		"cgroupDriver":                   "cgroupfs",
		"cgroupRoot":                     "/" + e.cgroup(),
		"failCgroupV1":                   false,
		"failSwapOn":                     false,
		"oomScoreAdj":                    0, // a lower one is not permitted everywhere
		"makeIPTablesUtilChains":         false,
		"containerRuntimeEndpoint":       "unix://" + e.path("containerd.sock"),
		"podLogsDir":                     e.path("kube", "pod-logs"),
		"evictionHard":                   map[string]any{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent":    100, // 100 is never
		"syncFrequency":                  "10s",
		"nodeStatusUpdateFrequency":      "5s",
		"eventRecordQPS":                 0,
		"registryPullQPS":                0,
		"maxPods":                        64,
		"enableControllerAttachDetach":   false, // no controller attaches
		"shutdownGracePeriod":            "0s",
		"volumePluginDir":                e.path("kube", "volume-plugins"),
		"runtimeRequestTimeout":          "2m",
		"streamingConnectionIdleTimeout": "4h",
		"localStorageCapacityIsolation":  true,
		"enforceNodeAllocatable":         []string{"pods"},
	})
	if err != nil {
		return err
	}
	return e.start(ctx, "kubelet", []string{
		programs["kubelet"], "--config=" + config, "--kubeconfig=" + e.path("kube", "node.kubeconfig"),
		"--hostname-override=" + nodeName, "--root-dir=" + e.path("kubelet"), "--cert-dir=" + e.path("kube", "kubelet"),
	}, api.nodeReady)
}

func writeText(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// quote writes a string as TOML has it, for the letters that paths have here.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is never refused
	}
	return string(text)
}
