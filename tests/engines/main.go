// Engines starts real engines for tests: dockerd, podman and a Kubernetes of one
// node, with a registry on loopback that all three pull from.
//
//	engines [-state DIR] up [docker podman kube]   start what does not run yet
//	engines [-state DIR] down                      stop all of it and remove the folder
//	engines [-state DIR] status                    say what runs
//	engines [-state DIR] kill PROCESS              SIGKILL one; up starts it again
//	engines [-state DIR] load FILE.tar             bring an OCI layout into all of them
//	engines [-state DIR] kubeconfig USER GROUP...  make a user that the cluster knows
//
// It needs root and Debian's packages docker.io, podman, etcd-server, containerd,
// runc, containernetworking-plugins and busybox-static, and in bin/ what "make kube"
// builds. An engine that cannot be started is left out, with the reason; where CI is
// "true" that is a failure. Everything is in one folder, on loopback and on bridges
// of its own, so that several can run on one machine. The engines outlive up.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	state := flag.String("state", "", "keep everything in `DIR` (default bin/engines-state, described in bin/engines.json)")
	bin := flag.String("bin", "bin", "`DIR` with what make kube builds")
	flag.Parse()
	if flag.Arg(0) == "registry" {
		fail(serveRegistry(flag.Arg(1), flag.Arg(2)))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(command(ctx, *state, *bin, flag.Args()))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, state, bin string, args []string) error {
	if len(args) == 0 {
		return errors.New("say up, down, status, kill, load or kubeconfig; engines -h tells the flags")
	}
	if runtime.GOOS != "linux" {
		return errors.New("these engines run on Linux only")
	}
	e, err := open(state, bin)
	if err != nil {
		return err
	}
	verb, args := args[0], args[1:]
	if verb != "status" {
		unlock, err := e.lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	switch verb {
	case "up":
		return e.up(ctx, args)
	case "down":
		return e.down(ctx)
	case "status":
		return e.status(os.Stdout)
	case "kill":
		if len(args) != 1 {
			return errors.New("kill wants the name of one process; status lists them")
		}
		return e.kill(args[0])
	case "load":
		if len(args) != 1 {
			return errors.New("load wants one file, a tar of an OCI layout")
		}
		ref, err := e.load(ctx, args[0])
		if err != nil {
			return err
		}
		fmt.Println(ref)
		return nil
	case "kubeconfig":
		if len(args) == 0 {
			return errors.New("kubeconfig wants the name of a user, and any groups after it")
		}
		name, err := e.userKubeconfig(args[0], args[1:])
		if err != nil {
			return err
		}
		fmt.Println(name)
		return nil
	}
	return fmt.Errorf("unknown command %q: say up, down, status, kill, load or kubeconfig", verb)
}

// report is what tests read; sandboxtest.EngineSet has the same fields.
type report struct {
	Program string            `json:"program"`
	State   string            `json:"state"`
	Docker  *docker           `json:"docker,omitempty"`
	Podman  *podman           `json:"podman,omitempty"`
	Kube    *kube             `json:"kube,omitempty"`
	Missing map[string]string `json:"missing,omitempty"`
}

// miss says that there is no such engine.
func (r *report) miss(name, why string) {
	switch name {
	case "docker":
		r.Docker = nil
	case "podman":
		r.Podman = nil
	case "kube":
		r.Kube = nil
	}
	if r.Missing == nil {
		r.Missing = map[string]string{}
	}
	r.Missing[name] = why
}

type docker struct {
	Binary string `json:"binary"`
	Host   string `json:"host"`
	Image  string `json:"image"`
}

type podman struct {
	Binary  string   `json:"binary"`
	Args    []string `json:"args"`
	RunArgs []string `json:"run_args"`
	Image   string   `json:"image"`
}

type kube struct {
	Kubeconfig string `json:"kubeconfig"`
	Namespace  string `json:"namespace"`
	Node       string `json:"node"`
	Image      string `json:"image"`
}

// writeJSON replaces a file whole, so that a reader never sees half of one.
func writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	part := name + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(part, name)
}

func readJSON(name string, v any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
