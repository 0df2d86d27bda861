package wasm

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/awaken-agents/awaken-host/plugins"
)

// What an Extism instance may hold beside its memory.
const (
	maxVarBytes  = 1 << 20
	maxHTTPBytes = 0 // by Extism's own function, which no guest can reach
)

// program is a compiled module. It holds nothing of a plugin but its code, so
// that plugins with the same module, and reloads, share it. Each has its own
// in-memory cache over the shared folder: closing it is the only way to give the
// machine code back, also after a failed compilation, where Extism keeps the
// runtime it made.
type program struct {
	key     string // ABI and SHA-256
	module  *module
	ahead   bool // its code was made ahead
	cache   wazero.CompilationCache
	extism  *extism.CompiledPlugin // abi extism
	runtime wazero.Runtime         // abi wasi
	command wazero.CompiledModule

	ready   chan struct{} // closed when err and the fields above are set
	err     error
	started chan struct{} // closed when compilation begins
	begun   time.Time     // when; set before started is closed
	ended   bool          // guarded by Runtime.mu, as is
	users   int           // loaded plugins, and loads that wait
}

// compile fills g. It takes from milliseconds (cached) to seconds, and cannot be
// interrupted.
func (g *program) compile(code []byte, abi plugins.ABI, cacheDir string, log *slog.Logger) error {
	err := g.compileWith(code, abi, cacheDir)
	if err == nil || cacheDir == "" {
		return err
	}
	// A cache entry cut short by a full disk must not keep a plugin from loading.
	if again := g.compileWith(code, abi, ""); again != nil {
		return err
	}
	log.Warn("the compilation cache could not be used, the module was compiled without it; removing the folder repairs it",
		"folder", cacheDir, "error", err)
	return nil
}

func (g *program) compileWith(code []byte, abi plugins.ABI, cacheDir string) (err error) {
	ctx := context.Background()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the compiler failed: %v", r)
		}
		if err != nil {
			g.close(ctx)
		}
	}()
	if cacheDir == "" {
		g.cache = wazero.NewCompilationCache()
	} else if g.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
		return err
	}
	// Without CloseOnContextDone a spinning guest cannot be stopped at all, and
	// freezes the process at the next garbage collection.
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(g.cache)
	if abi == plugins.ABIWASI {
		g.runtime = wazero.NewRuntimeWithConfig(ctx, config)
		if err = instantiateWASI(ctx, g.runtime); err != nil {
			return err
		}
		g.command, err = g.runtime.CompileModule(ctx, code)
		return err
	}
	manifest := extism.Manifest{
		Wasm: []extism.Wasm{extism.WasmData{Data: code, Name: "main"}},
		// Memory is held by the budget of each instance, over all memories. The other
		// two must be set with it: zero means none, and not the default.
		Memory: &extism.ManifestMemory{MaxPages: 65536, MaxHttpResponseBytes: maxHTTPBytes, MaxVarBytes: maxVarBytes},
		// AllowedHosts and AllowedPaths stay empty: Extism refuses every request then,
		// and leaves the file system to the module config, which has none.
	}
	g.extism, err = extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true, RuntimeConfig: config}, hostFunctions())
	return err
}

// close releases the code; no instance may be left.
func (g *program) close(ctx context.Context) {
	if g.extism != nil {
		_ = g.extism.Close(ctx)
	}
	if g.runtime != nil {
		_ = g.runtime.Close(ctx)
	}
	if g.cache != nil {
		_ = g.cache.Close(ctx)
	}
	g.extism, g.runtime, g.command, g.cache = nil, nil, nil, nil
}
