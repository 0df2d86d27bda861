package container

import (
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestEngineArgs(t *testing.T) {
	for _, c := range []struct {
		engine      string
		args        []string
		global, run []string
		refused     string
	}{
		{engine: "docker", args: nil},
		{
			engine: "docker", args: []string{"--runtime", "runsc", "--host=unix:///d.sock", "--ulimit=nproc=10:10", "-H", "unix:///e.sock", "--tls"},
			global: []string{"--host=unix:///d.sock", "-H", "unix:///e.sock", "--tls"}, run: []string{"--runtime", "runsc", "--ulimit=nproc=10:10"},
		},
		{
			engine: "podman", args: []string{"--runtime=runc", "--root", "/r", "--ulimit", "nofile=1024:1024"},
			global: []string{"--runtime=runc", "--root", "/r"}, run: []string{"--ulimit", "nofile=1024:1024"},
		},
		{engine: "podman", args: []string{"--url=ssh://elsewhere"}, refused: "--url is not allowed"},
		{engine: "podman", args: []string{"-H", "x"}, refused: "-H is not allowed"},
		{engine: "docker", args: []string{"--root", "/"}, refused: "--root is not allowed"},
		{engine: "docker", args: []string{"--ulimit"}, refused: "needs a value"},
		{engine: "docker", args: []string{"--platform="}, refused: "not understood"},
		{engine: "docker", args: []string{"--tls=false"}, refused: "not understood"},
		{engine: "docker", args: []string{"-H=unix:///d.sock"}, refused: "write --host"},
		{engine: "docker", args: []string{"busybox"}, refused: "is no option"},
		{engine: "docker", args: []string{""}, refused: "is no option"},
		{engine: "docker", args: []string{"--"}, refused: "-- is not allowed"},
		{engine: "docker", args: []string{"--ulimit=a", "--privileged"}, refused: "--privileged is not allowed"},
	} {
		global, run, err := engines[c.engine].sort(c.args)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %q: %v", c.engine, c.args, err)
			}
		case err != nil || !slices.Equal(global, c.global) || !slices.Equal(run, c.run):
			t.Errorf("%s %q: %q, %q, %v", c.engine, c.args, global, run, err)
		}
	}
}

// What could weaken the boundary, in every way of writing it.
func TestWeakeningArgs(t *testing.T) {
	names := strings.Fields(`--privileged --cap-add --security-opt --volume -v --mount --volumes-from --device
		--device-cgroup-rule --gpus --network --net --network-alias --publish -p --publish-all -P --link --pid --ipc --uts --userns
		--cgroupns --user -u --group-add --env -e --env-file --env-host --entrypoint --workdir -w --name --label -l --label-file
		--read-only --tmpfs --shm-size --pids-limit --memory -m --memory-swap --cpus --cpu-period --cpu-quota --oom-kill-disable
		--oom-score-adj --sysctl --restart --rm --detach -d --interactive -i --tty -t --attach -a --init --init-path --log-driver
		--log-opt --pull --cidfile --pidfile --conmon-pidfile --add-host --expose --isolation --stop-signal --systemd --rootfs --secret --pod
		--replace --uidmap --gidmap --subuidname --subgidname --preserve-fds --seccomp-policy --chrootdirs --image-volume --http-proxy
		--annotation --cgroups --cgroup-conf --requires --passwd-entry --hostuser --unsetenv --unsetenv-all --hooks-dir --module --remote --url
		--connection --identity --disable-content-trust --use-api-socket --health-cmd --volume-driver --storage`)
	for name := range engines {
		for _, option := range names {
			for _, args := range [][]string{{option}, {option + "=x"}, {option, "x"}, {"--ulimit", "core=0", option, "x"}} {
				if _, err := New(Options{Engine: name, Args: args}); err == nil || !strings.Contains(err.Error(), "engine_args of "+name) || !strings.Contains(err.Error(), option) {
					t.Errorf("%s %q: %v", name, args, err)
				}
			}
		}
	}
}

// Whatever is let through is an option that is listed, or the value of one before it.
func FuzzEngineArgs(f *testing.F) {
	f.Add("docker", "--ulimit\x00core=0\x00--host=x")
	f.Add("podman", "--root\x00--privileged\x00--privileged")
	f.Add("podman", "--runtime=runc\x00-v\x00/:/host")
	f.Fuzz(func(t *testing.T, name, joined string) {
		e := engines[name]
		if e == nil {
			return
		}
		args := strings.Split(joined, "\x00")
		global, run, err := e.sort(args)
		if err != nil {
			return
		}
		if len(global)+len(run) != len(args) {
			t.Fatalf("%q became %q and %q", args, global, run)
		}
		for _, part := range []struct {
			args    []string
			allowed []option
		}{{global, e.global}, {run, runOptions}} {
			for i := 0; i < len(part.args); i++ {
				name, _, joined := strings.Cut(part.args[i], "=")
				at := slices.IndexFunc(part.allowed, func(o option) bool { return o.name == name || o.short != "" && o.short == name })
				if at < 0 {
					t.Fatalf("%q lets %q through", args, part.args[i])
				}
				if part.allowed[at].value && !joined {
					i++
				}
			}
		}
	})
}

func TestNoSuchEngine(t *testing.T) {
	for _, name := range []string{"", "k8s", "Docker", sandbox.TierNamespace} {
		if _, err := New(Options{Engine: name}); err == nil {
			t.Errorf("%q is an engine", name)
		}
	}
}
