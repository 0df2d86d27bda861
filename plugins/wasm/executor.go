package wasm

import (
	"context"
	"errors"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Executor returns a batch.Executor for the tools of the snapshot that catalog
// returns; it is asked once per call, so a reload takes effect with the next one.
// The Runtime stays the caller's to close.
func (r *Runtime) Executor(catalog func() *plugins.Snapshot) batch.Executor {
	return &executor{r: r, catalog: catalog}
}

type executor struct {
	r       *Runtime
	catalog func() *plugins.Snapshot
}

func (e *executor) tool(id batch.ToolID) (*plugins.Tool, bool) {
	s := e.catalog()
	if s == nil {
		return nil, false
	}
	return s.Tool(id)
}

// RecoveryCapability implements batch.Executor.
func (e *executor) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability {
	t, ok := e.tool(id)
	if !ok || t.Spec.Recovery == "" {
		return batch.NonRecoverable
	}
	return t.Spec.Recovery
}

// Invoke implements batch.Executor.
func (e *executor) Invoke(ctx context.Context, call *batch.Call) (*batch.Output, error) {
	t, ok := e.tool(call.Tool)
	if !ok {
		return nil, unavailable(call, errors.New("it is not in the catalog any more"))
	}
	// The gate decided about one manifest; another one must not run in its place.
	if d := t.Descriptor().Digest; call.ToolDigest != "" && call.ToolDigest != d {
		return nil, unavailable(call, fmt.Errorf("its digest is %s now, the call was requested for %s", d, call.ToolDigest))
	}
	out, err := e.r.invoke(ctx, t.Plugin, t.Spec, call)
	return e.r.redact(t.Plugin, call, out, err)
}
