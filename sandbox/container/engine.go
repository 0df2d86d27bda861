package container

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Engine is what differs between the command lines of docker and podman.
type engine struct {
	name    string // of the tier, and of the program
	install string // how to get the program
	start   string // how to start what answers it
	// Run are options of "run" that keep the engine from adding something of its own.
	run func(f *facts) []string
	// Flat is the option of a bind mount that leaves out what is mounted below the
	// folder: "readonly" would not cover it everywhere.
	flat   func(f *facts) string
	facts  func(info []byte) (*facts, error)
	global []option // before the subcommand
	// Litters: the monitor of a container notes in an empty file "oom" that memory ran
	// out. Where the engine's own record of the container misses that (podman 4.3), the
	// file is in the folder that the client was started in, so that one gets a folder of
	// its own. It must be one that nothing inside the container can put a link into.
	litters bool
}

// Facts are what an engine says of itself, and of the image.
type facts struct {
	client   int  // major version of the program
	cpus     int  // of the engine's machine
	rootless bool // the engine runs as the user who runs the host
	remapped bool // the users of containers are others outside
	selinux  bool
	seccomp  bool
	image    image
}

var engines = map[string]*engine{
	sandbox.TierDocker: {
		name:    sandbox.TierDocker,
		install: "install docker (Debian: apt-get install docker.io)",
		start:   "start the Docker daemon (systemctl start docker)",
		// The client hands its proxies to every container, with the credentials in them.
		run: func(*facts) []string {
			var args []string
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"} {
				args = append(args, "--env", name+"=", "--env", strings.ToLower(name)+"=")
			}
			return args
		},
		flat: func(f *facts) string {
			if f.client >= 25 {
				return "bind-recursive=disabled"
			}
			return "bind-nonrecursive=true"
		},
		facts: dockerFacts,
		global: []option{
			{name: "--host", short: "-H", value: true}, {name: "--context", short: "-c", value: true}, {name: "--config", value: true},
			{name: "--tls"}, {name: "--tlsverify"}, {name: "--tlscacert", value: true}, {name: "--tlscert", value: true}, {name: "--tlskey", value: true},
		},
	},
	sandbox.TierPodman: {
		name:    sandbox.TierPodman,
		install: "install podman (Debian: apt-get install podman)",
		start:   "see what podman info says",
		run: func(f *facts) []string {
			args := []string{"--read-only-tmpfs=false", "--image-volume=ignore", "--http-proxy=false", "--systemd=false"}
			if f.rootless {
				args = append(args, "--userns=keep-id")
			}
			return args
		},
		flat:  func(*facts) string { return "bind-nonrecursive=true" },
		facts: podmanFacts, litters: true,
		global: []option{
			{name: "--root", value: true}, {name: "--runroot", value: true}, {name: "--tmpdir", value: true},
			{name: "--runtime", value: true}, {name: "--runtime-flag", value: true}, {name: "--conmon", value: true},
			{name: "--cgroup-manager", value: true}, {name: "--events-backend", value: true},
			{name: "--network-config-dir", value: true}, {name: "--storage-driver", value: true}, {name: "--storage-opt", value: true}, {name: "--imagestore", value: true},
		},
	},
}

func dockerFacts(info []byte) (*facts, error) {
	var d struct {
		NCPU            int
		OSType          string
		SecurityOptions []string
		ServerErrors    []string
		ClientInfo      struct{ Version string }
	}
	if err := json.Unmarshal(info, &d); err != nil {
		return nil, fmt.Errorf("docker info: %w", err)
	}
	if len(d.ServerErrors) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(d.ServerErrors, "; "))
	}
	if d.OSType != "linux" {
		return nil, fmt.Errorf("docker info: the engine runs %q containers, and the Hand needs linux", d.OSType)
	}
	f := &facts{cpus: d.NCPU, client: major(d.ClientInfo.Version)}
	for _, o := range d.SecurityOptions {
		fields := strings.Split(o, ",")
		switch fields[0] {
		case "name=rootless":
			f.rootless = true
		case "name=userns":
			f.remapped = true
		case "name=selinux":
			f.selinux = true
		case "name=seccomp":
			f.seccomp = !slices.Contains(fields, "profile=unconfined")
		}
	}
	return f, nil
}

func podmanFacts(info []byte) (*facts, error) {
	var d struct {
		Host struct {
			CPUs     int    `json:"cpus"`
			OS       string `json:"os"`
			Security struct {
				Rootless bool `json:"rootless"`
				Seccomp  bool `json:"seccompEnabled"`
				SELinux  bool `json:"selinuxEnabled"`
			} `json:"security"`
		} `json:"host"`
		Version struct{ Version string } `json:"version"`
	}
	if err := json.Unmarshal(info, &d); err != nil {
		return nil, fmt.Errorf("podman info: %w", err)
	}
	if d.Host.OS != "linux" {
		return nil, fmt.Errorf("podman info: the engine runs on %q, and the Hand needs linux", d.Host.OS)
	}
	s := d.Host.Security
	return &facts{
		client: major(d.Version.Version), cpus: d.Host.CPUs,
		rootless: s.Rootless, seccomp: s.Seccomp, selinux: s.SELinux,
	}, nil
}

func major(version string) int {
	n, _, _ := strings.Cut(version, ".")
	i, err := strconv.Atoi(n)
	if err != nil {
		return 0
	}
	return i
}

// Image is what an engine says of an image.
type image struct {
	ID           string `json:"Id"`
	Digest       string // podman
	RepoDigests  []string
	Architecture string
	Os           string
	Config       struct {
		Volumes map[string]json.RawMessage
	}
}

// Check holds an image against the reference by which the configuration pins it.
func (i *image) check(e *engine, ref string, anyPlatform bool) *sandbox.UnavailableError {
	no := func(reason sandbox.Reason, remedy, format string, args ...any) *sandbox.UnavailableError {
		return &sandbox.UnavailableError{Tier: e.name, Reason: reason, What: fmt.Sprintf(format, args...), Remedy: remedy}
	}
	digest := digestOf(ref)
	if !i.is(digest) {
		return no(sandbox.ReasonDigest, "pull it again by its digest", "%s answers with image %s for %s", e.name, i.ID, ref)
	}
	if i.Os != "linux" || i.Architecture != runtime.GOARCH && !anyPlatform {
		return no(sandbox.ReasonUnsupported, "use the digest of an image for linux/"+runtime.GOARCH,
			"image %s is for %s/%s, and the Hand is for linux/%s", ref, i.Os, i.Architecture, runtime.GOARCH)
	}
	if e.name == sandbox.TierDocker {
		for path := range i.Config.Volumes {
			if path != sandbox.WorkspaceDir && path != sandbox.TempDir && path != sandbox.StateDir {
				return no(sandbox.ReasonUnsupported, "use an image that declares no volume",
					"image %s declares the volume %s, for which docker makes a writable folder without a limit", ref, path)
			}
		}
	}
	return nil
}

func (i *image) is(digest string) bool {
	if withAlgorithm(i.ID) == digest || i.Digest == digest {
		return true
	}
	return slices.ContainsFunc(i.RepoDigests, func(d string) bool { return strings.HasSuffix(d, "@"+digest) })
}

// WithAlgorithm gives ids one form: podman leaves the algorithm out.
func withAlgorithm(id string) string {
	if id == "" || strings.Contains(id, ":") {
		return id
	}
	return "sha256:" + id
}
