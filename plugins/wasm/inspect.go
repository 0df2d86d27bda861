package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Inspection is what can be read from a module without running or compiling it.
type Inspection struct {
	Bytes   int
	SHA256  string // hex
	ABI     plugins.ABI
	Why     string   // what the guess of ABI rests on
	MadeBy  []string // what compiled it, as it says itself; may be empty
	Imports []InspectedImport
	Exports []InspectedExport
	// MemoryMin is what its memory starts with, in bytes, MemoryMax what it may ask
	// for; both 0 without a memory of its own.
	MemoryMin, MemoryMax uint64
	StartSection         bool // code runs when it is instantiated, before any call

	// Manifest is the smallest plugin.toml that would run it, with the digest filled
	// in. Empty where there is none; Refused then says why, and what to do.
	Manifest string
	Refused  error
	Notes    []string // what its imports need from the manifest and the operator
}

// InspectedImport is what a module wants from the host.
type InspectedImport struct {
	Module, Name string
	Kind         string // "function", "table", "memory", "global" or "tag"
	Signature    string // of a function, such as "i64,i64>i64"
	Offered      bool
	Needs        string // the capability without which it answers with an error; empty: none
}

// InspectedExport is what a module offers.
type InspectedExport struct {
	Name, Kind string
	Signature  string
	Tool       bool // it can be the export of a [[tool]]
}

// Inspect reads a module. Name is its file's, for the manifest. The error says why
// the bytes are no module that any manifest could make run: damaged, text, or a
// Component.
func Inspect(name string, b []byte) (*Inspection, error) {
	m, err := parseModule(b)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	i := &Inspection{Bytes: len(b), SHA256: hex.EncodeToString(sum[:]), MadeBy: producers(b), StartSection: m.hasStart}
	if m.hasMem {
		i.MemoryMin, i.MemoryMax = uint64(m.memMin)*pageBytes, uint64(m.memMax)*pageBytes
	}
	i.ABI, i.Why = guessABI(m)
	wasi, err := wasiFunctions()
	if err != nil {
		return nil, fmt.Errorf("the host cannot list its WASI functions: %w", err)
	}
	for _, imp := range m.imports {
		sig, known := offered(imp.module, i.ABI, wasi)[imp.name]
		i.Imports = append(i.Imports, InspectedImport{
			Module: imp.module, Name: imp.name, Kind: imp.kind, Signature: string(imp.sig),
			Offered: known && imp.kind == "function" && sig == imp.sig, Needs: needs[imp.module+"."+imp.name],
		})
	}
	tools := toolExports(m, i.ABI)
	if _, start := m.funcs["_start"]; start && i.ABI == plugins.ABIExtism && onlyStarts(m, b) {
		tools = []string{"_start"}
	}
	for _, export := range sortedKeys(m.exports) {
		i.Exports = append(i.Exports, InspectedExport{
			Name: export, Kind: m.exports[export], Signature: string(m.funcs[export]), Tool: slices.Contains(tools, export),
		})
	}
	i.Notes = notes(i)
	i.Manifest, i.Refused = smallestManifest(name, m, i, tools)
	if i.Refused == nil {
		i.Refused = checkManifest(i.Manifest, b)
	}
	if i.Refused != nil {
		i.Manifest = ""
	}
	return i, nil
}

// needs are the imports that are offered to all and answer with an error unless the
// manifest asks for something and the operator grants it.
var needs = map[string]string{
	extismEnv + ".http_request":       "hosts",
	extismUser + ".awaken_secret_get": "secrets",
	extismUser + ".awaken_exec":       "commands",
	wasiModule + ".path_open":         "paths",
}

// NeedsGrant says in plain words what the module of p imports that p may not use
// here: one sentence for each. Files are left out, since the libraries of most
// languages import the functions for them and never call them.
func NeedsGrant(p *plugins.Plugin) []string {
	// The sections alone: reading the code takes as long as loading the plugin.
	parser, err := newModuleParser(p.Module)
	if err != nil {
		return nil // Load says so
	}
	may := map[string]int{"hosts": len(p.Effective.Hosts), "secrets": len(p.Effective.Secrets), "commands": len(p.Effective.Commands)}
	var out []string
	for _, imp := range parser.m.imports {
		capability := needs[imp.module+"."+imp.name]
		if n, weighed := may[capability]; weighed && n == 0 {
			out = append(out, fmt.Sprintf("it imports %s and is granted no %s: what it asks there will be refused", imp.name, capability))
		}
	}
	return out
}

func guessABI(m *module) (plugins.ABI, string) {
	_, start := m.funcs["_start"]
	for _, imp := range m.imports {
		if imp.module == extismEnv || imp.module == extismUser {
			return plugins.ABIExtism, "it imports functions of " + imp.module
		}
	}
	switch tools := toolExports(m, plugins.ABIExtism); {
	case start && len(tools) == 0:
		return plugins.ABIWASI, "it exports _start and nothing else to call"
	case len(tools) > 0:
		return plugins.ABIExtism, "it exports functions that take nothing, and imports none of Extism's"
	}
	return plugins.ABIExtism, "nothing speaks for another"
}

// runtimeExports are functions that compilers add for hosts and tools of their own.
var runtimeExports = []string{
	"_start", "_initialize", "__wasm_call_ctors", "__wasm_call_dtors", "__wasm_apply_data_relocs", "__original_main",
	"hs_init", "hs_exit", "malloc", "free", "calloc", "realloc", "go_scheduler", "resume", "_resume",
	"__collect", "__pin", "__unpin", "__new", "abort",
}

// toolExports are the exported functions that can be tools, sorted.
func toolExports(m *module, abi plugins.ABI) []string {
	if abi == plugins.ABIWASI {
		return nil
	}
	var out []string
	for _, name := range sortedKeys(m.funcs) {
		if !slices.Contains(runtimeExports, name) && !strings.HasPrefix(name, "asyncify_") && callable(m.funcs[name]) {
			out = append(out, name)
		}
	}
	return out
}

func notes(i *Inspection) []string {
	var out []string
	for _, imp := range i.Imports {
		switch imp.Needs {
		case "hosts":
			out = append(out, `imports http_request: every request is refused unless capabilities.hosts names the host and [plugin.grant] grants it`)
		case "secrets":
			out = append(out, `imports awaken_secret_get: capabilities.secrets names the secrets, and [plugin.secrets] gives them`)
		case "commands":
			out = append(out, `imports awaken_exec: only for tools with target = "sandbox", whose capabilities.commands name the commands`)
		case "paths":
			out = append(out, `can open files: there are none unless capabilities.paths names folders and [plugin.grant] grants them`)
		}
	}
	if i.StartSection {
		out = append(out, "has a start section: its code runs before the first call, within that call's limits")
	}
	return out
}

// smallestManifest writes a manifest with one tool for each export that can be one.
func smallestManifest(file string, m *module, i *Inspection, tools []string) (string, error) {
	base := filepath.Base(file)
	if i.ABI == plugins.ABIExtism && len(tools) == 0 {
		return "", fmt.Errorf("it exports nothing that a tool could call: an Extism function takes nothing and returns nothing or one number (it exports %s)", m.exportNames())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "manifest = 1\nid = %q\nversion = \"0.1.0\"\ndescription = %q\n", idOf(base, "-", "plugin"), "What "+base+" can do")
	fmt.Fprintf(&b, "\n[module]\npath = %q\nsha256 = %q\nabi = %q\n", base, i.SHA256, i.ABI)
	if least := plugins.DefaultLimits.MemoryMiB; i.MemoryMin > mebibytes(least) {
		fmt.Fprintf(&b, "\n[capabilities]\nmemory_mib = %d\n", (i.MemoryMin+1<<20-1)>>20)
	}
	const textual = "input_schema = { type = \"object\", properties = { input = { type = \"string\" } }, required = [\"input\"] }\n" +
		"encoding = { input = \"text:input\", output = \"text\" }\n"
	if i.ABI == plugins.ABIWASI {
		fmt.Fprintf(&b, "\n[[tool]]\nid = \"run\"\nargs = []\ndescription = %q\n%s", "Runs "+base, textual)
		return b.String(), nil
	}
	seen := map[string]bool{}
	for _, export := range tools {
		name := idOf(export, "_", "run")
		id := name
		for n := 2; seen[id]; n++ {
			id = fmt.Sprintf("%s_%d", name, n)
		}
		seen[id] = true
		fmt.Fprintf(&b, "\n[[tool]]\nid = %q\nexport = %q\ndescription = %q\n%s", id, export, "Calls "+export+" of "+base, textual)
	}
	return b.String(), nil
}

func checkManifest(text string, module []byte) error {
	manifest, err := plugins.ParseManifest(plugins.ManifestFile, []byte(text))
	if err != nil {
		return err
	}
	return Check(manifest, module)
}

// idOf makes an id of a name: lower case letters, digits, and between them gap.
func idOf(name, gap, otherwise string) string {
	name = strings.TrimSuffix(name, ".wasm")
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	id := strings.Join(words, gap)
	if len(id) > 30 {
		id = strings.TrimSuffix(id[:30], gap)
	}
	if id == "" {
		return otherwise
	}
	return id
}

// producers reads who made a module from its custom section of that name; what is
// not well-formed there is left out, as nothing depends on it.
func producers(b []byte) []string {
	r := &reader{b: b, at: 8}
	for r.at < len(b) && r.err == nil {
		id := r.byte()
		s := &reader{b: r.bytes(int(r.u32()))}
		if id != customSection || s.name() != "producers" {
			continue
		}
		var out []string
		for fields := s.count(); fields > 0 && s.err == nil; fields-- {
			s.name()
			for n := s.count(); n > 0 && s.err == nil; n-- {
				if made := strings.TrimSpace(s.name() + " " + s.name()); s.err == nil {
					out = append(out, made)
				}
			}
		}
		return out
	}
	return nil
}
