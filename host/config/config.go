package config

import (
	"path/filepath"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Version is the format of host.toml that this release reads.
const Version = 1

// Config is a parsed and validated host.toml with defaults filled in. It must not
// be changed once it is in use and may then be read concurrently. File names in it
// are joined with the folder of host.toml: absolute where that is, else relative
// to the working folder of the process.
type Config struct {
	File    string // as given to Load or Parse
	Version int
	DataDir string // the ledger and everything else the host keeps; default ".awaken"
	Trust   Trust
	Store   Store
	Tickets Tickets
	Policy  Policy
	Plugins []Plugin
	// Tools without a module: ClientTools wait for a result from outside,
	// DelegateTools run further calls in a child run.
	ClientTools   []plugins.HostTool
	DelegateTools []plugins.HostTool
	Limits        Limits
	Egress        Egress
	Sandbox       Sandbox
	Serve         Serve

	lines map[string]int    // key path to its line in File
	flags map[string]string // key path to the flag that set it
}

// Trust says whose plugins are loaded.
type Trust struct {
	Keys          []TrustKey
	Revoked       []string // key ids (16 hex digits) or manifest digests (64), lower case
	AllowUnsigned bool     // a development opt-in; default false
}

// TrustKey is a minisign public key and the plugins it may sign.
type TrustKey struct {
	File    string
	Plugins []string // patterns of path.Match on plugin ids; nil: any plugin
}

// Store is how the ledger is kept.
type Store struct {
	Sync       bool          // every commit is on disk before it is acknowledged; default true
	MinFreeMiB int           // new batches are refused below this much free space; default 64
	Retention  time.Duration // how long after its last change a finished run is removed; 0, the default: never
}

// Tickets is how long calls wait for people and clients.
type Tickets struct {
	Timeout time.Duration // until the deadline, where policy gives none; default 7d
}

// Policy is where the gate's rules are and how they are evaluated.
type Policy struct {
	Paths      []string      // files, folders or unsigned bundles; default the folder "policy"
	Deadline   time.Duration // for one decision; default 100ms
	Builtins   []string      // network and environment built-ins to let in
	RequireLog bool          // no call runs whose decision cannot be logged
	Log        PolicyLog

	Bundles      []PolicyBundle
	TestOnReload bool          // a policy is put in force when the tests beside it pass; default false
	Watch        time.Duration // how often files are looked at for changes; default 2s, 0: never
}

// Plugin is one [[plugin]]: where it is and what it gets here.
type Plugin struct {
	Path     string // folder; empty when OCI is set
	OCI      string // "host/name@sha256:…"; empty when Path is set
	SHA256   string // pins the manifest: hex, lower case; empty: a signature is needed
	Grant    *Grant // nil: pure compute
	Config   map[string]Secret
	Secrets  map[string]SecretSource
	Names    map[string]string                 // tool id to the name the model sees
	Recovery map[string]plugins.RecoveryChoice // by tool id
	Clock    string                            // default "real"; plugins.Clocks lists all
	Random   string                            // "real", the default, or "seed:<n>"
	Warm     int                               // instances made ahead of calls; default 0
}

// Grant is the operator's side of a plugin's capabilities. What it does not list
// is not granted.
type Grant struct {
	Hosts    []string
	Paths    map[string]PathGrant // by absolute guest path
	Commands []string
}

// PathGrant maps a guest path to a folder of this machine, or, of a plugin with tools
// that run in a sandbox, to the place of the same name there.
type PathGrant struct {
	Host   string // empty: in the sandbox
	Mode   string // "ro", the default, or "rw"
	MaxMiB int    // how much it may hold; 0: not bounded
	// MaxFiles is how many files and folders it may hold; 0: not bounded.
	MaxFiles int
}

// SecretSource says where a secret is read from when a call needs it. Exactly one
// field is set.
type SecretSource struct {
	Env     string // name of an environment variable
	File    string
	Command []Secret // argv; arguments can hold credentials, so they print redacted
}

// Limits are the ceilings that no manifest and no call exceeds.
type Limits struct {
	MemoryMiB    int           // of one plugin instance; default 256
	Timeout      time.Duration // of one attempt; default 60s
	OutputMiB    int           // of one call; default 16
	ArgumentsMiB int           // of one call; default 4

	TotalMemoryMiB  int           // of all plugin instances together; 0, the default: half of the machine's
	ConcurrentCalls int           // that run at once; 0, the default: twice the processors
	QueuedCalls     int           // that wait to run; default 1000
	CompileTimeout  time.Duration // of one module; default 60s
}

// Ceilings is the part of the limits that plugins are loaded with.
func (l Limits) Ceilings() plugins.Limits {
	return plugins.Limits{MemoryMiB: l.MemoryMiB, Timeout: l.Timeout, OutputMiB: l.OutputMiB}
}

// MaxArgumentBytes is the most argument bytes that one call may have.
func (l Limits) MaxArgumentBytes() int { return l.ArgumentsMiB << 20 }

// Egress is the way out of plugins to the hosts that they are granted.
type Egress struct {
	Proxy       Secret        // URL of the proxy for all requests, which may hold a password; empty: none
	CAFile      string        // PEM file of authorities to trust besides the system's; empty: none
	Timeout     time.Duration // of one request with its redirects; default 30s
	RequestMiB  int           // of one request's body; default 8
	ResponseMiB int           // of one answer's body; default 8
}

// Serve is where the faces listen.
type Serve struct {
	Bind string // host:port; default "127.0.0.1:8421"
}

// Load reads, validates and checks file, which must be a regular file; the result is
// ready for use in this release. The error is an *Error that lists every problem.
func Load(file string) (*Config, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	c, problems := collect(file, data)
	if problems = append(problems, c.refused()...); len(problems) > 0 {
		return nil, &Error{Problems: inOrder(problems)}
	}
	return c, nil
}

// Parse decodes and validates a host.toml. Name is for messages, and its folder is
// what relative file names are joined with; nothing is read from disk. Settings
// that this release has no use for are accepted: see Unsupported and Check. The
// error is an *Error that lists every problem.
func Parse(name string, data []byte) (*Config, error) {
	c, problems := collect(name, data)
	if len(problems) > 0 {
		return nil, &Error{Problems: inOrder(problems)}
	}
	return c, nil
}

// collect returns what could be read besides the problems.
func collect(name string, data []byte) (*Config, []Problem) {
	c := defaults()
	c.File = name
	problems := c.decode(data)
	if c.Version == Version {
		problems = append(problems, without(c.validate(), problems)...)
	}
	return c, problems
}

// join resolves a file name of the document.
func (c *Config) join(name string) string {
	if name == "" {
		return ""
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(filepath.Dir(c.File), name)
}
