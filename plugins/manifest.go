package plugins

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// File names of a plugin folder.
const (
	ManifestFile  = "plugin.toml"
	SignatureFile = "plugin.toml.minisig"
)

// ABI is how the host talks to a module.
type ABI string

// The ABIs.
const (
	ABIExtism ABI = "extism" // any Extism PDK
	ABIWASI   ABI = "wasi"   // a command module: argv, stdin, stdout
)

// Isolation is how long an instance lives.
type Isolation string

// The isolations.
const (
	IsolationCall   Isolation = "call" // a fresh instance per call, the default
	IsolationRun    Isolation = "run"
	IsolationShared Isolation = "shared"
)

// Manifest is a parsed and validated plugin.toml. It is immutable once parsed.
type Manifest struct {
	ID           string
	Version      string
	Description  string
	Module       Module
	Capabilities Capabilities
	Tools        []ToolSpec
	State        []StateSpec
}

// Has reports whether a tool of the plugin runs in target.
func (m *Manifest) Has(target batch.Target) bool {
	return slices.ContainsFunc(m.Tools, func(t ToolSpec) bool { return t.Target == target })
}

// WithoutSchemas is m as a Hand needs it. Arguments, outputs and state are held against
// their schemas by the host, whose word counts; a Hand would compile them for nothing.
func (m *Manifest) WithoutSchemas() *Manifest {
	out := *m
	out.Tools, out.State = slices.Clone(m.Tools), slices.Clone(m.State)
	for i := range out.Tools {
		out.Tools[i].InputSchema, out.Tools[i].OutputSchema = nil, nil
	}
	for i := range out.State {
		out.State[i].Schema = nil
	}
	return &out
}

// Module names the code.
type Module struct {
	Path   string // inside the plugin's folder, slash separated
	SHA256 string // hex, lower case
	ABI    ABI
}

// Capabilities is an upper bound of what a plugin may use; empty means nothing.
type Capabilities struct {
	Hosts     []string
	Paths     map[string]string // guest path to "ro" or "rw"
	Commands  []string
	Secrets   []string
	MemoryMiB int           // 0: the host's ceiling
	Timeout   time.Duration // 0: the host's ceiling
}

// ToolSpec is one [[tool]] of a manifest, defaults filled in.
type ToolSpec struct {
	ID           string   // within the plugin
	Export       string   // abi extism: exported function
	Args         []string // abi wasi: argv after the program's name
	Description  string
	Target       batch.Target
	Recovery     batch.RecoveryCapability
	Isolation    Isolation
	InputSchema  json.RawMessage `json:",omitempty"` // JSON Schema 2020-12; nil: any object
	OutputSchema json.RawMessage `json:",omitempty"` // nil: not checked
	Annotations  map[string]any
	// Require is what the tool demands of the sandbox that it runs in: a property to a
	// word that CheckRequirement accepts. Only of tools with target sandbox.
	Require map[string]string `json:",omitempty"`

	// Delegate marks a tool of host.toml that starts a child run, Parallel one whose
	// calls may run side by side. A manifest cannot set them.
	Delegate bool
	Parallel bool
	Encoding Encoding
}

// Encoding is how arguments and results cross the boundary.
type Encoding struct {
	Input  string // "json", "text:<arg>" or "base64:<arg>"
	Output string // "json", "text", "base64" or "blocks"
}

// StateSpec is one [[state]] of a manifest: a run state key and what it may hold.
type StateSpec struct {
	Key    string
	Schema json.RawMessage `json:",omitempty"` // nil: any value
}

// Limits are the operator's ceilings. Zero fields mean the defaults of
// DefaultLimits.
type Limits struct {
	MemoryMiB int
	Timeout   time.Duration
	OutputMiB int
}

// DefaultLimits are the ceilings where the operator sets none.
var DefaultLimits = Limits{MemoryMiB: 256, Timeout: time.Minute, OutputMiB: 16}

// TrustedBy says why a plugin was loaded.
type TrustedBy string

// The grounds of trust.
const (
	TrustedBySignature TrustedBy = "signature"
	TrustedByPin       TrustedBy = "pin"      // [[plugin]].sha256
	TrustedByOptIn     TrustedBy = "unsigned" // [trust].allow_unsigned
	// TrustedByHost is a plugin without a module: the operator's own definitions.
	TrustedByHost TrustedBy = "host.toml"
)

// Plugin is a verified plugin with what it may use here. It is immutable.
type Plugin struct {
	Manifest  *Manifest
	Dir       string // where it was loaded from, for messages
	Digest    string // hex SHA-256 of plugin.toml, or of the definitions in host.toml
	TrustedBy TrustedBy
	Signer    string // key id in hex for a signature, else empty
	Module    []byte // the verified module; never changed; nil with TrustedByHost

	// Effective is manifest ∩ grant (for secrets: ∩ Secrets), with memory and timeout
	// clamped to the operator's limits (never zero). OutputMiB is the operator's ceiling. All are
	// zero with TrustedByHost: there is nothing to run.
	Effective Capabilities
	Grant     *Grant // the operator's, whose host folders stand behind Effective.Paths; nil: none
	OutputMiB int
	Config    map[string]string         // [plugin.config]
	Secrets   map[string]SecretSource   // [plugin.secrets]: where those of Effective.Secrets come from
	Clock     Clock                     // of its guests; empty: ClockReal
	Random    Random                    // of its guests; zero: real
	Warm      int                       // instances made ahead of calls with isolation "call"; 0: none
	Recovery  map[string]RecoveryChoice // [plugin.recovery], by tool id within the plugin
	Names     map[string]string         // [plugin.names]: tool id within the plugin to the name the model sees
}

// RecoveryChoice is what the operator pins for a tool.
type RecoveryChoice struct {
	Policy      batch.RecoveryPolicy // empty: never_replay
	MaxAttempts int                  // 0: batch.DefaultMaxAttempts
}

func (c RecoveryChoice) policy() batch.RecoveryPolicy {
	if c.Policy == "" {
		return batch.NeverReplay
	}
	return c.Policy
}
