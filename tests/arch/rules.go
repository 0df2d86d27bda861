package arch

// Module is the path of the module that the rules are about.
const Module = "github.com/awaken-agents/awaken-host"

// Room is a package, or every package below one ("sandbox/*"), and what it may
// import of this module. The first room of Rules.Rooms that fits a package is its.
type Room struct {
	Path   string
	May    []string // packages or patterns
	Tests  []string // what its test files may import besides
	StdLib bool     // nothing from outside this module, in tests neither
	Why    string
}

// Supplier is a module, or several with the same beginning, from outside and the
// packages that may import it.
type Supplier struct {
	Path  string
	By    []string // packages or patterns; "*": any that is not StdLib
	Tests []string // packages whose test files may, besides
	Why   string
}

// Link is a package and what must not be in a program that has it.
type Link struct {
	Path string
	Not  []string // beginnings of import paths
	Why  string
}

// Rules are what is checked.
type Rules struct {
	Rooms     []Room
	Suppliers []Supplier
	Links     []Link
	BadNames  map[string]string // name of a folder with Go files to why not
	Top       map[string]string // entries of the top level to what they are
}

const (
	opa      = "github.com/open-policy-agent/opa"
	badger   = "github.com/dgraph-io/badger"
	clientGo = "k8s.io/"
	schemas  = "github.com/santhosh-tekuri/jsonschema"
)

// House are the rules of this repository.
var House = Rules{
	Rooms: []Room{
		{Path: "batch", Tests: []string{"batch/storetest"}, StdLib: true,
			Why: "the ledger is the vocabulary of all rooms and knows none of them; its tests drive the engine over the reference store"},
		{Path: "batch/storetest", May: []string{"batch"}, StdLib: true,
			Why: "the suite judges stores by the contract alone"},
		{Path: "batch/*", May: []string{"batch"}, Tests: []string{"batch/storetest"},
			Why: "a store implements its parent's contract and is held to the suite"},

		{Path: "plugins", May: []string{"batch", "plugins/schema", "plugins/strictjson"}, Tests: []string{"plugins/jsonschema"},
			Why: "a library of tools, for the ledger's types, and two leaves of its own"},
		{Path: "plugins/strictjson", Why: "how JSON is read, for everybody"},
		{Path: "plugins/schema", Why: "where schemas are compiled, by whatever compiler is linked"},
		{Path: "plugins/jsonschema", May: []string{"plugins/schema", "plugins/strictjson"}, Why: "the compiler of schemas, which takes milliseconds to initialize: the Hand has none"},
		{Path: "plugins/egress", May: []string{"plugins", "batch"}, Why: "the guarded way out knows grants, and no runtime"},
		{Path: "plugins/wasm", May: []string{"plugins", "batch", "plugins/egress"}, Tests: []string{"plugins/jsonschema"},
			Why: "the runtime runs in the host and inside a Hand alike, so it may need neither"},
		{Path: "plugins/*", May: []string{"plugins", "batch"}, Why: "a child serves its parent's contract"},

		{Path: "policy", May: []string{"batch", "plugins"}, Tests: []string{"plugins/jsonschema"}, Why: "the lock answers the ledger's Gate port about tools of the library"},
		{Path: "policy/*", May: []string{"policy", "batch", "plugins"}, Tests: []string{"batch/storetest"}, Why: "a child serves its parent's contract"},

		{Path: "sandbox", May: []string{"batch", "plugins", "plugins/egress"}, Tests: []string{"sandbox/sandboxtest", "plugins/jsonschema"},
			Why: "the workshop answers the ledger's Executor port and sends its traffic the guarded way"},
		{Path: "sandbox/hand", May: []string{"sandbox", "batch", "plugins", "plugins/wasm", "plugins/egress"}, Tests: []string{"sandbox/sandboxtest", "plugins/jsonschema"},
			Why: "the in-sandbox side runs the one Wasm runtime, and carries its requests in the words of the guarded way out"},
		{Path: "sandbox/process", May: []string{"sandbox"}, Why: "programs of this machine that tiers start: one way to start, hold and end them"},
		{Path: "sandbox/cgroup", May: []string{"sandbox", "sandbox/process"}, Why: "limits of this machine's kernel, for the tiers that run processes on it"},
		{Path: "sandbox/local", May: []string{"sandbox", "sandbox/process"}, Tests: []string{"sandbox/sandboxtest"},
			Why: "a tier of processes of this machine"},
		{Path: "sandbox/namespace", May: []string{"sandbox", "sandbox/process", "sandbox/cgroup"}, Tests: []string{"sandbox/sandboxtest"},
			Why: "a tier of processes of this machine"},
		{Path: "sandbox/container", May: []string{"sandbox", "sandbox/process"}, Tests: []string{"sandbox/sandboxtest"},
			Why: "two tiers of engines whose clients are processes of this machine"},
		{Path: "sandbox/kube", May: []string{"sandbox", "sandbox/process"}, Tests: []string{"sandbox/sandboxtest"},
			Why: "a tier; it shares how the last words of a program are kept"},
		{Path: "sandbox/sandboxtest", May: []string{"sandbox", "batch", "plugins", "plugins/jsonschema"}, Why: "the suite loads plugins as a host does"},
		{Path: "sandbox/*", May: []string{"sandbox", "batch", "plugins"}, Tests: []string{"sandbox/sandboxtest"},
			Why: "a tier implements its parent's contract and is held to the suite"},

		{Path: "host", May: []string{"batch", "plugins", "policy", "sandbox"}, Tests: []string{"batch/storetest", "plugins/jsonschema"},
			Why: "the hallway composes contracts and names no implementation"},
		{Path: "host/config", May: []string{"host", "batch", "plugins", "sandbox"}, Tests: []string{"plugins/jsonschema"}, Why: "the file speaks of what the rooms declare"},
		{Path: "host/standard", May: []string{
			"batch", "batch/*", "plugins", "plugins/*", "policy", "policy/*", "sandbox", "sandbox/*",
			"host", "host/config", "host/dispatch", "host/backend/*",
		}, Why: "the one place that names every implementation; it knows no face"},
		{Path: "host/mcp", May: []string{"host", "batch", "plugins"}, Why: "a face has no business rules"},
		{Path: "host/api", May: []string{"host", "batch", "plugins"}, Why: "a face has no business rules"},
		{Path: "host/console", May: []string{"host", "batch", "plugins"}, Why: "a face has no business rules"},
		{Path: "host/*", May: []string{"host", "batch", "plugins"}, Why: "a child serves its parent's contract"},

		{Path: "cmd/awaken-host", May: []string{"host/standard", "host/mcp", "host/api", "host/console"},
			Why: "a front door speaks to people; what it offers, an embedder gets from host/standard too"},
		{Path: "cmd/awaken-hand", May: []string{"sandbox/hand"}, Why: "what runs inside a sandbox is small"},

		{Path: "packaging/*", Tests: []string{"sandbox/sandboxtest"}, StdLib: true, Why: "what is shipped is made of files that are built already"},

		{Path: "examples/*", Why: "an example is built by its reader, who has the interfaces of a guest and nothing of ours"},
		{Path: "tests/guests/*", Why: "a guest has the interfaces of a guest and nothing of ours"},
		{Path: "tests/arch", Why: "the rules are about the others"},
		{Path: "tests/docs", May: []string{"host/standard", "host", "batch"}, Tests: []string{"plugins"},
			Why: "a manifest in a document stands without its module, for which an embedder cannot sign"},
		{Path: "tests/*", May: []string{"host/standard", "host", "batch"}, Tests: []string{"batch/storetest", "sandbox/sandboxtest"},
			Why: "what crosses rooms is tested from outside, as an embedder would"},
	},

	Suppliers: []Supplier{
		{Path: badger, By: []string{"batch/badgerstore"}, Tests: []string{"tests/bench"},
			Why: "stores are exchangeable; a benchmark measures the bare database beside ours in one run"},
		{Path: "github.com/tetratelabs/wazero", By: []string{"plugins/wasm"}, Tests: []string{"tests/bench"},
			Why: "one place holds the limits of guests; a benchmark measures the bare runtime beside ours in one run"},
		{Path: "github.com/extism/go-sdk", By: []string{"plugins/wasm"}, Tests: []string{"tests/bench"},
			Why: "one place holds the limits of guests; a benchmark measures the bare runtime beside ours in one run"},
		{Path: opa, By: []string{"policy"}, Tests: []string{"tests/bench"},
			Why: "one place fails closed; a benchmark measures the bare evaluation beside ours in one run"},
		{Path: clientGo, By: []string{"sandbox/kube"}, Why: "30 MB that only one tier needs"},
		{Path: "aead.dev/minisign", By: []string{"plugins"}, Why: "signatures are checked in one place"},
		{Path: schemas, By: []string{"plugins/jsonschema"}, Why: "schemas are compiled in one place, without loaders"},
		{Path: "github.com/BurntSushi/toml", By: []string{"plugins", "host/config"}, Why: "the two files that people write"},
		{Path: "go.yaml.in/yaml", By: []string{"policy"}, Why: "OPA reads data with it and says nothing of a key that is there twice"},
		{Path: "github.com/prometheus/client_golang", By: []string{"policy", "policy/*", "host/standard", "host/api"},
			Why: "a room counts what it does, and a face shows it"},
		{Path: "github.com/agnivade/levenshtein", By: []string{"plugins", "policy", "host/config", "cmd/awaken-host"}, Why: "suggestions for mistyped names"},
		{Path: "github.com/spf13/cobra", By: []string{"cmd/awaken-host"}, Why: "commands belong to the front door"},
		{Path: "github.com/spf13/pflag", By: []string{"cmd/awaken-host"}, Why: "flags belong to the front door"},
		{Path: "golang.org/x/term", By: []string{"cmd/awaken-host"}, Why: "only the front door speaks to a terminal"},
		{Path: "golang.org/x/net", By: []string{"plugins", "plugins/egress"}, Why: "names of hosts as IDNA maps them, and what may stand in a header; the standard library has both and does not export them"},
		{Path: "golang.org/x/sys", By: []string{"*"}, Why: "system calls, as the standard library would offer them"},
		{Path: "golang.org/x/sync", By: []string{"*"}, Why: "as the standard library would offer it"},
		{Path: "github.com/rogpeppe/go-internal", Tests: []string{"cmd/awaken-host", "tests/*"}, Why: "scripts of the command line"},
		{Path: "pgregory.net/rapid", Tests: []string{"tests/model"}, Why: "random histories, shrunk to the shortest that fails"},
		{Path: "github.com/extism/go-pdk", By: []string{"examples/*", "tests/guests/*"}, Why: "the guest's side of the interface"},
	},

	Links: []Link{
		{Path: "cmd/awaken-hand", Not: []string{opa, badger, clientGo, schemas},
			Why: "the Hand starts for every sandbox: 6 ms and 5 MB without them, 16 ms and 30 MB with them"},
		{Path: "sandbox/hand", Not: []string{opa, badger, clientGo, schemas}, Why: "the Hand links it"},
		{Path: "plugins/wasm", Not: []string{opa, badger, clientGo, schemas}, Why: "the Hand links it"},
	},

	BadNames: map[string]string{
		"util":    "it says nothing: name the idea",
		"utils":   "it says nothing: name the idea",
		"common":  "it says nothing: name the idea",
		"types":   "a type lives with the idea that it belongs to",
		"helper":  "it says nothing: name the idea",
		"helpers": "it says nothing: name the idea",
		"misc":    "it says nothing: name the idea",
		"shared":  "it says nothing: name the idea",
	},

	Top: map[string]string{
		"go.mod": "the module", "go.sum": "its checksums",
		"README.md": "the first page", "LICENSE": "Apache-2.0", "Makefile": "every task by name",
		"docs": "what does not fit a doc comment", "packaging": "how it is shipped",
		"batch": "the ledger", "plugins": "the library", "policy": "the lock", "sandbox": "the workshop",
		"host": "the hallway", "cmd": "the front doors", "examples": "tools to learn from", "tests": "what crosses rooms",
	},
}
