package wasm

import (
	"context"
	"fmt"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// compile makes the machine code of g, when it is its turn. Nobody waits for this
// goroutine but through await, because the compiler cannot be interrupted; so it
// cleans up itself when nobody wants the result any more.
func (r *Runtime) compile(g *program, code []byte, p *plugins.Plugin) {
	select {
	case r.build <- struct{}{}:
	case <-r.base.Done():
		r.compiled(g, ErrClosed)
		return
	}
	defer func() { <-r.build }()
	g.begun = time.Now()
	close(g.started)
	err := r.make(g, code, p)
	r.log.Debug("module compiled", "plugin", p.Manifest.ID, "module_sha256", p.Manifest.Module.SHA256, "took", time.Since(g.begun), "ok", err == nil)
	if err != nil {
		err = finalError{fmt.Errorf("it does not compile: %w", err)}
	}
	r.compiled(g, err)
}

// make fills g, from what was made ahead where that is there.
func (r *Runtime) make(g *program, code []byte, p *plugins.Plugin) error {
	abi := p.Manifest.Module.ABI
	if g.ahead {
		// Machine code of another program or processor is not found, and what is cut short
		// does not load; either way the folder cannot be written, so that this fails.
		err := g.compileWith(code, abi, r.opts.CodeDir)
		if err == nil {
			return nil
		}
		r.log.Debug("machine code that was made ahead does not load", "plugin", p.Manifest.ID, "folder", r.opts.CodeDir, "error", err)
	}
	return g.compile(code, abi, r.opts.CacheDir, r.log)
}

// compiled publishes what became of g.
func (r *Runtime) compiled(g *program, err error) {
	r.mu.Lock()
	g.err, g.ended = err, true
	unwanted := err != nil || g.users == 0 || r.programs == nil
	if unwanted && r.programs[g.key] == g {
		delete(r.programs, g.key)
	}
	r.mu.Unlock()
	if unwanted {
		g.close(context.Background())
	}
	close(g.ready)
}

// await waits until g is compiled, for no longer than it may take. On an error g
// has one user less.
func (r *Runtime) await(g *program) error {
	err := r.wait(g)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	g.users--
	// It may have ended just now, for nobody.
	unwanted := g.ended && g.err == nil && g.users == 0 && r.programs[g.key] == g
	if unwanted {
		delete(r.programs, g.key)
	}
	r.mu.Unlock()
	if unwanted {
		g.close(context.Background())
	}
	return err
}

func (r *Runtime) wait(g *program) error {
	budget := r.opts.CompileTimeout
	turn := time.NewTimer(budget)
	defer turn.Stop()
	select {
	case <-g.started:
	case <-g.ready:
		return g.err
	case <-turn.C:
		return fmt.Errorf("its compilation did not begin within %s, because others take that long: try again later", budget)
	case <-r.base.Done():
		return ErrClosed
	}
	late := time.NewTimer(time.Until(g.begun.Add(budget)))
	defer late.Stop()
	select {
	case <-g.ready:
		return g.err
	case <-late.C:
		return fmt.Errorf("it takes longer than %s to compile: where the machine is only busy, try again later, else split up its largest functions", budget)
	case <-r.base.Done():
		return ErrClosed
	}
}
