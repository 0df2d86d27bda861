package sandbox

import (
	"encoding/json"
	"io/fs"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Hello is what the host says first on a Channel, and Welcome what the Hand answers.
type Hello struct {
	Environment string `json:"environment"`
	// Key authenticates the records of the operation ledger: 32 bytes of the
	// Environment's, which are on no disk inside the boundary, so that a command cannot
	// forge a record that the host will believe.
	Key     []byte         `json:"key"`
	Network Network        `json:"network"`
	Limits  InstanceLimits `json:"limits"`
	// Places are where WorkspaceDir, TempDir, StateDir and the targets of mounts really
	// are, for a tier without a file system of its own. Nil: they are what they are called.
	Places map[string]string `json:"places,omitempty"`
	// Code says that CodeDir is there, read-only.
	Code bool `json:"code,omitempty"`
	// Mounts are the targets besides the workspace, for what calls may use; true: writable.
	Mounts map[string]bool `json:"mounts,omitempty"`
	// LogLevel is the least level of slog that the host wants events of. 0: info.
	LogLevel int `json:"log_level,omitempty"`
}

// Welcome is the Hand's answer to Hello.
type Welcome struct {
	Hand string `json:"hand"` // version of the program
	PID  int    `json:"pid"`  // as the Hand sees it
}

// Requests of the host to the Hand. The names of the constants' types say what is in
// the parameters; "body" is what goes over the stream as bytes.
const (
	// MethodPlugin makes a plugin known to the Hand: body in, a PluginImage in JSON;
	// result, a PluginKnown.
	MethodPlugin = "plugin"
	// MethodModule hands over the code: parameters, a ModuleOffer; body in, its bytes.
	// The Hand checks the digest.
	MethodModule = "module"
	// MethodCall runs one call: parameters, a CallParams; body in, a CallBody in JSON;
	// body out, a batch.Output in JSON; events, EventLog and EventProgress. It fails
	// with the Kind of a batch.ToolErrorKind. ToolErrorUnavailable: it was not begun.
	MethodCall = "call"
	// MethodProbe looks around from the inside: result, Properties.
	MethodProbe = "probe"
	// MethodLedger asks what became of an operation: parameters, a LedgerQuery; body
	// out, a LedgerRecord in JSON.
	MethodLedger = "ledger"
	// MethodList lists a folder and all below it: parameters, a FileParams; body out, a
	// list of FileInfo in JSON.
	MethodList = "files.list"
	// MethodGet reads a file: parameters, a FileParams; body out; result, a FileInfo.
	MethodGet = "files.get"
	// MethodPut writes a file, whole or not at all: parameters, a FileParams; body in.
	MethodPut = "files.put"
	// MethodSeed unpacks a tar into a folder (WorkspaceDir or the target of a mount):
	// parameters, a FileParams; body in. Nothing lands outside of the folder.
	MethodSeed = "tree.put"
	// MethodHarvest packs a folder: parameters, a FileParams; body out, a tar of its
	// folders, regular files and symbolic links, modes and times.
	MethodHarvest = "tree.get"
)

// Requests of the Hand to the host. All name the operation they belong to; the host
// holds them against what that call may use.
const (
	// MethodSecret reads a secret: parameters, a SecretParams; body out, the value.
	MethodSecret = "secret"
	// MethodOOMKills asks how many processes of this boundary the kernel has killed for
	// memory, where it cannot be seen from inside: parameters, an OOMParams; result, an
	// OOMCount. It fails with RemoteRefused where nobody knows.
	MethodOOMKills = "oom_kills"
	// MethodHTTP sends one request by the guarded way out: parameters, an HTTPParams;
	// body in and out; result, an HTTPAnswer.
	MethodHTTP = "http"
	// MethodDial connects a command to a host by the guarded way out: parameters, a
	// DialParams; the bodies are the connection, of which the host's begins with one
	// byte more, DialReady, once it is connected. It fails with RemoteRefused where the
	// call may not reach the host.
	MethodDial = "dial"
)

// PluginImage is a plugin as a Hand gets it: everything that plugins.Plugin has but
// the code and the secrets.
type PluginImage struct {
	Key       string                       `json:"key"` // names this image on the channel; differs when anything in it does
	Manifest  *plugins.Manifest            `json:"manifest"`
	Digest    string                       `json:"digest"`
	Effective plugins.Capabilities         `json:"effective"`
	Paths     map[string]plugins.PathGrant `json:"paths,omitempty"` // by guest path; Host is a place inside the boundary
	OutputMiB int                          `json:"output_mib"`
	Config    map[string]string            `json:"config,omitempty"`
	Clock     plugins.Clock                `json:"clock,omitempty"`
	Random    plugins.Random               `json:"random,omitzero"`
	Warm      int                          `json:"warm,omitempty"`
	Tools     map[string]string            `json:"tools"` // tool id within the plugin to the name the model sees
}

// PluginCode is what "awaken-hand compile" reads on standard input, as JSON.
type PluginCode struct {
	Manifest  *plugins.Manifest    `json:"manifest"`
	Effective plugins.Capabilities `json:"effective"`
	Module    []byte               `json:"module"`
}

// PluginKnown says whether the Hand has the code too.
type PluginKnown struct {
	NeedModule bool `json:"need_module"`
}

// ModuleOffer is what MethodModule's body holds.
type ModuleOffer struct {
	SHA256 string `json:"sha256"` // hex
	Bytes  int64  `json:"bytes"`
}

// CallParams name a call and what it may use.
type CallParams struct {
	Plugin     string       `json:"plugin"` // PluginImage.Key
	Tool       string       `json:"tool"`   // id within the plugin
	Run        batch.RunID  `json:"run"`
	Step       int          `json:"step"`
	Index      int          `json:"index"`
	ID         batch.CallID `json:"id"`
	Name       batch.ToolID `json:"name"`
	Attempt    int          `json:"attempt"`
	ToolDigest string       `json:"tool_digest"`
	Grant      *batch.Grant `json:"grant,omitempty"`
}

// Operation is the call's idempotency key.
func (p *CallParams) Operation() batch.OperationID {
	return batch.NewOperationID(p.Run, p.Step, p.Index)
}

// CallBody is what of a call may be large.
type CallBody struct {
	Arguments []byte                     `json:"arguments"` // byte for byte, so not as JSON
	State     map[string]json.RawMessage `json:"state,omitempty"`
}

// LedgerQuery asks for one operation.
type LedgerQuery struct {
	Operation batch.OperationID `json:"operation"`
}

// LedgerRecord is what the ledger of a Hand knows of one attempt.
type LedgerRecord struct {
	Operation batch.OperationID   `json:"operation"`
	Attempt   int                 `json:"attempt"` // 0: the operation is not known
	Done      bool                `json:"done"`    // false: begun, and not ended yet or never
	Output    *batch.Output       `json:"output,omitempty"`
	Failed    batch.ToolErrorKind `json:"failed,omitempty"` // the host's side of it failed, in place of Output
	Message   string              `json:"message,omitempty"`
}

// FileParams name a file or folder of a boundary.
type FileParams struct {
	Path  string      `json:"path"` // relative to WorkspaceDir; of MethodSeed and MethodHarvest the absolute target
	Mode  fs.FileMode `json:"mode,omitempty"`
	Limit int64       `json:"limit,omitempty"` // bytes; 0: not bounded here
}

// FileInfo describes one file of a workspace.
type FileInfo struct {
	Path    string      `json:"path"` // relative to the workspace, slash separated
	Bytes   int64       `json:"bytes"`
	Mode    fs.FileMode `json:"mode"`
	ModTime time.Time   `json:"mod_time"`
	Link    string      `json:"link,omitempty"` // where a symbolic link points
}

// SecretParams ask for a secret of the plugin that the operation calls.
type SecretParams struct {
	Operation batch.OperationID `json:"operation"`
	Name      string            `json:"name"`
}

// OOMParams name the operation that runs a command.
type OOMParams struct {
	Operation batch.OperationID `json:"operation"`
}

// OOMCount is since the start of the Instance.
type OOMCount struct {
	Kills uint64 `json:"kills"`
}

// HTTPParams are a request without its body.
type HTTPParams struct {
	Operation   batch.OperationID   `json:"operation"`
	Method      string              `json:"method"`
	URL         string              `json:"url"`
	Header      map[string][]string `json:"header,omitempty"`
	MaxResponse int64               `json:"max_response,omitempty"` // bytes; 0: the host's own limit
}

// HTTPAnswer is an answer without its body. Refused and TooLarge are those of
// egress.FailedError; NotGranted and From those of egress.NotGrantedError.
type HTTPAnswer struct {
	Status     int                 `json:"status"`
	Header     map[string][]string `json:"header,omitempty"`
	Host       string              `json:"host,omitempty"`
	NotGranted string              `json:"not_granted,omitempty"`
	From       string              `json:"from,omitempty"`
	Failed     string              `json:"failed,omitempty"`
	Refused    bool                `json:"refused,omitempty"`
	TooLarge   bool                `json:"too_large,omitempty"`
}

// DialReady is what comes before the bytes of a connection.
const DialReady byte = 1

// DialParams ask for a connection for a command.
type DialParams struct {
	Operation batch.OperationID `json:"operation"`
	Scheme    string            `json:"scheme"` // "http" for a plain request, "https" for a tunnel
	Host      string            `json:"host"`   // a name or an address literal
	Port      int               `json:"port"`
}

// Events of MethodCall, in the stream of the Hand.
const (
	EventLog      = "log"      // a LogEvent
	EventProgress = "progress" // a LogEvent whose Source is awaken_progress
)

// LogEvent is a record of the Hand's logger.
type LogEvent struct {
	Level   int            `json:"level"` // of slog
	Message string         `json:"message"`
	Attrs   map[string]any `json:"attrs,omitempty"`
}
