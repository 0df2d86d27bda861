package standard

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/container"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
	"github.com/awaken-agents/awaken-host/sandbox/local"
	"github.com/awaken-agents/awaken-host/sandbox/namespace"
)

// handName is the Hand's program, as it is looked for beside the host's own.
const handName = "awaken-hand"

// openTier makes the tier of this name as the host file sets it up. It starts nothing.
// An error is a setupError, or an *sandbox.UnavailableError: such as of a file that is
// not there now.
func openTier(cfg *config.Config, name string, log *slog.Logger) (sandbox.Tier, error) {
	s := &cfg.Sandbox
	switch name {
	case sandbox.TierLocal:
		return local.New(local.Options{Logger: log}), nil
	case sandbox.TierNamespace:
		return namespace.New(namespace.Options{
			Program: s.Namespace.Program, Folders: s.Namespace.Folders, User: s.Namespace.User, Cgroup: s.Namespace.Cgroup, Logger: log,
		}), nil
	case sandbox.TierDocker, sandbox.TierPodman:
		engine := &s.Docker
		if name == sandbox.TierPodman {
			engine = &s.Podman
		}
		o := container.Options{Engine: name, Image: s.Image, Pull: engine.Pull, Command: engine.Command, Logger: log}
		if name == s.Tier { // they are written for one engine
			o.Args = s.EngineArgs
		}
		t, err := container.New(o)
		if err != nil {
			return nil, setupError{fmt.Errorf("%s: [sandbox]: %w", cfg.File, err)}
		}
		return t, nil
	case sandbox.TierKube:
		return openKube(s, log), nil
	}
	return nil, &sandbox.UnavailableError{Tier: name, Reason: sandbox.ReasonUnsupported, What: "there is no such tier", Remedy: "choose another one"}
}

func openKube(s *config.Sandbox, log *slog.Logger) sandbox.Tier {
	k := &s.Kube
	o := kube.Options{
		Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace, Image: s.Image, HandImage: k.HandImage,
		PullPolicy: k.PullPolicy, PullSecrets: k.PullSecrets, RuntimeClass: k.RuntimeClass, NodeSelector: k.NodeSelector,
		NetworkPolicyAttested: k.NetworkPolicyAttested, StartTimeout: k.StartTimeout, Lifetime: k.Lifetime, Logger: log,
	}
	for _, t := range k.Tolerations {
		o.Tolerations = append(o.Tolerations, kube.Toleration(t))
	}
	return kube.New(o)
}

// handProgram finds the Hand: where hand_bin says, else beside this program. An error
// is an *sandbox.UnavailableError.
func handProgram(cfg *config.Config, tier string) (string, error) {
	missing := func(what, remedy string, err error) error {
		return &sandbox.UnavailableError{Tier: tier, Reason: sandbox.ReasonTool, What: what, Remedy: remedy, Err: err}
	}
	if named := cfg.Sandbox.HandBin; named != "" {
		file, err := filepath.Abs(named)
		if err == nil {
			err = program(file)
		}
		if err != nil {
			return "", missing("the program of the Hand that [sandbox].hand_bin names cannot be used", "correct hand_bin in "+cfg.File, err)
		}
		return file, nil
	}
	own, err := os.Executable()
	if err == nil {
		own, err = filepath.EvalSymlinks(own)
	}
	if err != nil {
		return "", missing("this program cannot tell where it is, and the Hand is looked for beside it", "name it with [sandbox].hand_bin in "+cfg.File, err)
	}
	file := filepath.Join(filepath.Dir(own), handName)
	if err := program(file); err != nil {
		return "", missing("the program of the Hand is not beside this one, and [sandbox].hand_bin names no other",
			fmt.Sprintf("put %s there, it comes with this program, or name it with [sandbox].hand_bin in %s", handName, cfg.File), err)
	}
	return file, nil
}

// program says why a file cannot be run.
func program(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", file)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable", file)
	}
	return nil
}
