package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/tetratelabs/wazero"

	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

const arguments = `{"name":"Ada"}`

// BenchmarkFullCall runs a batch of one call through a host as "awaken-host init"
// makes it, with a synced store, and beside it, turn by turn, what it cannot do
// without: three synced writes, one call of the same plugin through plain Extism
// with a fresh instance, one evaluation of the same policy through plain OPA. The
// ratio is the median of the first over the sum of the medians of the others.
func BenchmarkFullCall(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	if _, err := standard.Init(dir); err != nil {
		b.Fatal(err)
	}
	h, err := standard.Open(ctx, filepath.Join(dir, "host.toml"), standard.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close() })
	if err := h.Start(ctx); err != nil {
		b.Fatal(err)
	}
	msg, err := standard.ParseMessage([]byte(`{"calls":[{"id":"c","tool":"hello__greet","arguments":` + arguments + `}]}`))
	if err != nil {
		b.Fatal(err)
	}
	fullCall := func() {
		res, err := h.Run(ctx, standard.Request{Message: msg})
		if err != nil || res.Results[0].IsError || res.Results[0].Executed == nil {
			b.Fatalf("%+v, %v", res, err)
		}
	}
	fullCall()

	parts := []part{
		{"host", fullCall},
		{"3-fsync", threeFsyncs(b, dir)},
		{"extism", plainExtism(b, dir)},
		{"opa", plainOPA(b, dir, h)},
	}
	for i := range parts {
		parts[i].do()
	}
	took := make([][]time.Duration, len(parts))
	for b.Loop() {
		for i, p := range parts {
			began := time.Now()
			p.do()
			took[i] = append(took[i], time.Since(began))
		}
	}
	b.ReportMetric(0, "ns/op") // the time of all together says nothing
	var bare float64
	p50 := make([]float64, len(parts))
	for i, p := range parts {
		slices.Sort(took[i])
		p50[i] = float64(took[i][len(took[i])/2])
		b.ReportMetric(p50[i], p.name+"-p50-ns")
		if i > 0 {
			bare += p50[i]
		}
	}
	b.ReportMetric(p50[0]/bare, "ratio")
}

type part struct {
	name string
	do   func()
}

func threeFsyncs(b *testing.B, dir string) func() {
	f, err := os.Create(filepath.Join(dir, "synced"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	page := make([]byte, 4096)
	return func() {
		for range 3 {
			if _, err := f.WriteAt(page, 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// plainExtism is the starter's greet as a program with the SDK would call it:
// compiled once, limits set, a fresh instance a call.
func plainExtism(b *testing.B, dir string) func() {
	ctx := context.Background()
	module, err := os.ReadFile(filepath.Join(dir, "plugins", "hello", "starter.wasm"))
	if err != nil {
		b.Fatal(err)
	}
	state := extism.NewHostFunctionWithStack("awaken_state_get",
		func(_ context.Context, _ *extism.CurrentPlugin, stack []uint64) { stack[0] = 0 },
		[]extism.ValueType{extism.ValueTypePTR}, []extism.ValueType{extism.ValueTypePTR})
	compiled, err := extism.NewCompiledPlugin(ctx, extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: module}},
		Timeout: 5000,
		Memory:  &extism.ManifestMemory{MaxPages: 256, MaxVarBytes: 1 << 20},
	}, extism.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfig()}, []extism.HostFunction{state})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = compiled.Close(ctx) })
	return func() {
		inst, err := compiled.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig().WithSysWalltime()})
		if err != nil {
			b.Fatal(err)
		}
		status, out, err := inst.CallWithContext(ctx, "greet", []byte(arguments))
		if err != nil || status != 0 || len(out) == 0 {
			b.Fatal(status, string(out), err)
		}
		if err := inst.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// plainOPA evaluates the same modules with the input that the host recorded.
func plainOPA(b *testing.B, dir string, h *host.Host) func() {
	ctx := context.Background()
	runs, err := h.Runs(ctx)
	if err != nil || len(runs) == 0 {
		b.Fatal(runs, err)
	}
	view, err := h.Show(ctx, runs[0].Run)
	if err != nil {
		b.Fatal(err)
	}
	var input map[string]any
	if err := json.Unmarshal(view.Batches[0].Calls[0].Decisions[0].Input, &input); err != nil {
		b.Fatal(err)
	}
	input["call"].(map[string]any)["arguments"] = map[string]any{"name": "Ada"}
	doc, err := json.Marshal(input)
	if err != nil {
		b.Fatal(err)
	}
	files, err := filepath.Glob("../../policy/rego/*.rego")
	if err != nil || len(files) == 0 {
		b.Fatal(files, err)
	}
	options := []func(*rego.Rego){rego.Query("data.awaken.gate.decision"), rego.StrictBuiltinErrors(true)}
	for _, f := range append(files, filepath.Join(dir, "policy", "policy.rego")) {
		if strings.HasSuffix(f, "_test.rego") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		options = append(options, rego.Module(f, string(text)))
	}
	query, err := rego.New(options...).PrepareForEval(ctx)
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		var in any
		if err := json.Unmarshal(doc, &in); err != nil {
			b.Fatal(err)
		}
		rs, err := query.Eval(ctx, rego.EvalInput(in))
		if err != nil || len(rs) != 1 {
			b.Fatal(rs, err)
		}
		if d, ok := rs[0].Expressions[0].Value.(map[string]any); !ok || d["outcome"] != "allow" {
			b.Fatalf("%v", rs[0].Expressions[0].Value)
		}
	}
}
