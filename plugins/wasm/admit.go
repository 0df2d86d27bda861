package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

const (
	extismEnv  = "extism:host/env"
	extismUser = "extism:host/user"
	wasiModule = wasi_snapshot_preview1.ModuleName
)

// extismFunctions is what Extism's Go SDK offers under extism:host/env.
var extismFunctions = map[string]signature{
	"alloc": "i64>i64", "free": "i64>", "length": "i64>i64", "length_unsafe": "i64>i64", "reset": ">",
	"load_u8": "i64>i32", "load_u64": "i64>i64", "store_u8": "i64,i32>", "store_u64": "i64,i64>",
	"input_load_u8": "i64>i32", "input_load_u64": "i64>i64", "input_length": ">i64", "input_offset": ">i64",
	"input_set": "i64,i64>", "output_set": "i64,i64>", "output_length": ">i64", "output_offset": ">i64",
	"error_set": "i64>", "error_get": ">i64", "memory_bytes": ">i64",
	"config_get": "i64>i64", "var_get": "i64>i64", "var_set": "i64,i64>",
	"http_request": "i64,i64>i64", "http_status_code": ">i32", "http_headers": ">i64",
	"log_trace": "i64>", "log_debug": "i64>", "log_info": "i64>", "log_warn": "i64>", "log_error": "i64>",
	"get_log_level": ">i32",
}

// wasiFunctions asks wazero what it offers, so that the list is never out of date.
var wasiFunctions = sync.OnceValues(func() (map[string]signature, error) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	c, err := wasi_snapshot_preview1.NewBuilder(rt).Compile(ctx)
	if err != nil {
		return nil, err
	}
	list := map[string]signature{}
	for name, def := range c.ExportedFunctions() {
		list[name] = newSignature(def.ParamTypes(), def.ResultTypes())
	}
	return list, nil
})

func newSignature(params, results []byte) signature {
	side := func(types []byte) string {
		names := make([]string, len(types))
		for i, t := range types {
			names[i] = valueTypeName(t)
		}
		return strings.Join(names, ",")
	}
	return signature(side(params) + ">" + side(results))
}

// admit reads the module of p and refuses it where it could not run as its
// manifest says. It returns the bytes to compile. cacheDir may be empty.
func admit(p *plugins.Plugin, cacheDir string) (*module, []byte, error) {
	// Beside the examination, from which nothing comes unless this comes out well.
	digest := make(chan error, 1)
	go func() {
		var err error
		if sum := sha256.Sum256(p.Module); hex.EncodeToString(sum[:]) != p.Manifest.Module.SHA256 {
			err = fmt.Errorf("its SHA-256 is %x, the manifest says %s: put back the module that was signed, or sign again", sum, p.Manifest.Module.SHA256)
		}
		digest <- err
	}()
	verified := sync.OnceValue(func() error { return <-digest })
	m, code, err := examine(p.Manifest, p.Module, memoryMiB(p), &scans{dir: cacheDir, module: p.Manifest.Module.SHA256, verified: verified})
	if wrong := verified(); wrong != nil {
		err = wrong
	}
	if err != nil {
		return nil, nil, refused(p.Manifest, finalError{err})
	}
	return m, code, nil
}

// finalError is why a module cannot run here, which it will not with the next call
// either: not what a busy machine or the end of the host has to do with.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Check refuses a module that Load would refuse for this manifest without compiling
// it, with the same error: imports and exports that do not fit, another ABI, sizes
// out of bounds. The digest that the manifest names is not compared, so that Check
// can be asked before there is one, and the limits are the manifest's, or the
// default ones.
func Check(manifest *plugins.Manifest, module []byte) error {
	memory := manifest.Capabilities.MemoryMiB
	if memory <= 0 {
		memory = plugins.DefaultLimits.MemoryMiB
	}
	if _, _, err := examine(manifest, module, memory, nil); err != nil {
		return refused(manifest, err)
	}
	return nil
}

func refused(m *plugins.Manifest, err error) error {
	return fmt.Errorf("plugin %s: module %s: %w", m.ID, m.Module.Path, err)
}

func examine(manifest *plugins.Manifest, b []byte, memoryMiB int, cache *scans) (*module, []byte, error) {
	m, err := parseScanned(b, cache)
	if err != nil {
		return nil, nil, err
	}
	if err := checkImports(m, manifest); err != nil {
		return nil, nil, err
	}
	if err := checkExports(m, manifest, b); err != nil {
		return nil, nil, err
	}
	if need, limit := uint64(m.memMin)*pageBytes, mebibytes(memoryMiB); need > limit {
		return nil, nil, fmt.Errorf("its memory starts at %s and the limit is %s: raise capabilities.memory_mib (and [limits].memory_mib, which caps it)",
			formatBytes(need), formatBytes(limit))
	}
	code, err := m.boundTables(b)
	if err != nil {
		return nil, nil, err
	}
	if code, err = m.interruptible(code); err != nil {
		return nil, nil, err
	}
	if manifest.Module.ABI == plugins.ABIExtism {
		if code, err = m.reroute(code); err != nil {
			return nil, nil, err
		}
	}
	m.checks = nil
	return m, code, nil
}

func checkImports(m *module, manifest *plugins.Manifest) error {
	abi := manifest.Module.ABI
	wasi, err := wasiFunctions()
	if err != nil {
		return fmt.Errorf("the host cannot list its WASI functions: %w", err)
	}
	var bad, hints []string
	add := func(what, hint string) {
		bad = append(bad, what)
		if !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	for _, imp := range m.imports {
		sig, known := offered(imp.module, abi, wasi)[imp.name]
		switch {
		case known && imp.module == extismUser && imp.name == execFunction && !sandboxed(manifest):
			add(imp.String(), imp.name+` runs commands, which only tools in a sandbox may: set target = "sandbox" for one of the tools, or build the plugin without it`)
		case known && imp.kind == "function" && imp.sig == sig:
		case known && imp.kind == "function":
			add(fmt.Sprintf("%s with type %s", imp, imp.sig), fmt.Sprintf("%s has type %s: declare it so", imp.name, sig))
		default:
			add(imp.String(), importHint(imp, abi))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	const most = 20
	if len(bad) > most {
		bad = append(bad[:most], fmt.Sprintf("and %d more", len(bad)-most))
	}
	return fmt.Errorf("it imports what this host does not offer: %s (%s)", strings.Join(bad, ", "), strings.Join(hints, "; "))
}

// sandboxed reports whether a tool of the plugin runs in a sandbox.
func sandboxed(m *plugins.Manifest) bool {
	return slices.ContainsFunc(m.Tools, func(t plugins.ToolSpec) bool { return t.Target == batch.TargetSandbox })
}

// offered are the functions that modules of abi may import from a module.
func offered(module string, abi plugins.ABI, wasi map[string]signature) map[string]signature {
	switch {
	case module == wasiModule:
		return wasi
	case module == extismEnv && abi == plugins.ABIExtism:
		return extismFunctions
	case module == extismUser && abi == plugins.ABIExtism:
		return awakenFunctions
	}
	return nil
}

func importHint(imp importRef, abi plugins.ABI) string {
	switch {
	case abi == plugins.ABIWASI && (imp.module == extismEnv || imp.module == extismUser):
		return `it is an Extism plugin: set abi = "extism" in the manifest`
	case imp.module == extismUser:
		return "the host functions are " + strings.Join(sortedKeys(awakenFunctions), ", ")
	case imp.module == extismEnv:
		return "it was built with a newer or damaged Extism PDK"
	case imp.module == "env":
		return "functions of env are symbols the linker did not find: link the library that defines them, or build without --allow-undefined"
	case imp.module == "wasi_unstable":
		return "it was built for an old preview of WASI: build for wasi_snapshot_preview1 (wasm32-wasip1)"
	case strings.HasPrefix(imp.module, "wasi:"):
		return "it was built for WASI preview 2: build for wasm32-wasip1"
	case imp.module == "gojs" || imp.module == "go":
		return "it was built with GOOS=js: use GOOS=wasip1"
	case strings.HasPrefix(imp.module, "__wbindgen") || imp.module == "wbg":
		return "it was built for a browser with wasm-bindgen: build for wasm32-wasip1"
	}
	return "offered are " + wasiModule + orExtism(abi)
}

func orExtism(abi plugins.ABI) string {
	if abi == plugins.ABIExtism {
		return ", " + extismEnv + " and " + extismUser
	}
	return " and nothing else"
}

func checkExports(m *module, manifest *plugins.Manifest, b []byte) error {
	sig, hasStart := m.funcs["_start"]
	if manifest.Module.ABI == plugins.ABIWASI {
		switch {
		case !hasStart:
			return fmt.Errorf(`abi = "wasi" runs a command module and this one does not export _start (it exports %s): build it as a program and not as a library, or set abi = "extism"`, m.exportNames())
		case sig != ">":
			return fmt.Errorf("its _start has type %s, a command's takes and returns nothing", sig)
		}
		return nil
	}
	for _, t := range manifest.Tools {
		sig, ok := m.funcs[t.Export]
		switch {
		case hasStart && t.Export != "_start" && onlyStarts(m, b):
			return fmt.Errorf(`tool %q names the export %q, and the module is a program, which can only be run from its _start and ends there. Build it as a library (Go: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared; C: -mexec-model=reactor; Rust: crate-type = ["cdylib"]), or run the whole program: export = "_start" when it reads and writes through Extism, abi = "wasi" when it uses standard input and output`, t.ID, t.Export)
		case !ok:
			return fmt.Errorf("tool %q names the export %q, which it does not have; it exports %s", t.ID, t.Export, m.exportNames())
		case !callable(sig):
			return fmt.Errorf("tool %q: its export %q has type %s; an Extism function takes nothing and returns nothing or one number", t.ID, t.Export, sig)
		case t.Export == "_start" && t.Isolation != plugins.IsolationCall:
			return fmt.Errorf(`tool %q: its export _start ends the instance, which isolation = %q would keep for the next call: set isolation = "call"`, t.ID, t.Isolation)
		}
	}
	return nil
}

// onlyStarts reports whether nothing of a module that exports _start can be called
// but that: there is nothing else, or it was made by the Go compiler, whose runtime
// is not there before _start and gone after it. Other compilers make modules that
// run either way.
func onlyStarts(m *module, b []byte) bool {
	return len(toolExports(m, plugins.ABIExtism)) == 0 ||
		slices.ContainsFunc(producers(b), func(by string) bool { return strings.HasPrefix(by, "Go cmd/compile") })
}

// callable reports whether an exported function has the type of a tool.
func callable(sig signature) bool { return sig == ">" || sig == ">i32" || sig == ">i64" }
