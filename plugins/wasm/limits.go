package wasm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// limits are what one call may use, each with the place that sets it.
type limits struct {
	memory    uint64 // bytes
	memoryBy  string
	timeout   time.Duration
	timeoutBy string
	output    int // bytes
}

func memoryMiB(p *plugins.Plugin) int {
	if p.Effective.MemoryMiB > 0 {
		return p.Effective.MemoryMiB
	}
	return plugins.DefaultLimits.MemoryMiB
}

// limitsOf is the plugin's effective limits, narrowed by the gate's grant.
func limitsOf(p *plugins.Plugin, grant *batch.Grant) limits {
	set := func(manifest bool, capability, ceiling string) string {
		if manifest {
			return "capabilities." + capability
		}
		return "[limits]." + ceiling
	}
	declared := p.Manifest.Capabilities
	l := limits{memory: mebibytes(memoryMiB(p)), timeout: p.Effective.Timeout, output: p.OutputMiB << 20}
	if l.timeout <= 0 {
		l.timeout = plugins.DefaultLimits.Timeout
	}
	if l.output <= 0 {
		l.output = plugins.DefaultLimits.OutputMiB << 20
	}
	l.memoryBy = set(mebibytes(declared.MemoryMiB) == l.memory, "memory_mib", "memory_mib")
	l.timeoutBy = set(declared.Timeout == l.timeout, "timeout", "timeout")
	if grant == nil {
		return l
	}
	if g := mebibytes(grant.MemoryMiB); g > 0 && g < l.memory {
		l.memory, l.memoryBy = g, "the policy's grant"
	}
	if grant.Timeout > 0 && grant.Timeout < l.timeout {
		l.timeout, l.timeoutBy = grant.Timeout, "the policy's grant"
	}
	return l
}

// reservation is what an instance of m with that memory limit takes from the quota
// while code of it runs: all that it may come to have. One call can always run.
func (r *Runtime) reservation(m *module, memory uint64) uint64 {
	return min(memory+m.overhead(), r.quota.total)
}

// overhead is what an instance may have beside its memory: Extism's first pages, its
// variables, and 8 bytes for each entry of a table or of a segment for one.
func (m *module) overhead() uint64 {
	entries := uint64(0)
	for _, t := range m.tables {
		entries = min(entries+uint64(t.max), maxTableEntries)
	}
	return kernelPages*pageBytes + maxVarBytes + 8*(entries+m.elements)
}

// narrows reports whether a grant takes anything away.
func narrows(g *batch.Grant) bool {
	return g != nil && (g.Hosts != nil || g.Paths != nil || g.Commands != nil || g.MemoryMiB > 0 || g.Timeout > 0)
}

func mebibytes(n int) uint64 { return uint64(max(n, 0)) << 20 }

// formatBytes writes whole MiB and KiB as such, and anything else as bytes.
func formatBytes[N int | uint64](n N) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
