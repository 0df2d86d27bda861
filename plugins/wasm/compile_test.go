package wasm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// slowPlugin is within the bounds and takes a good part of a second to compile.
// Every one has another digest, so that none is found compiled.
func slowPlugin(locals int) *plugins.Plugin {
	return newPlugin(ifs(6000, locals).module(1), plugins.ABIWASI, tool("run"))
}

// abandonedEnds waits for compilations that go on, so that they do not disturb
// other tests, and fails when they leave something behind.
func abandonedEnds(t *testing.T, r *Runtime) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for len(r.build) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("a compilation does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.programs) != 0 {
		t.Errorf("%d programs are kept that nobody has", len(r.programs))
	}
}

// soon fails when f takes longer than anything but compiling.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

// compiling waits until r compiles something.
func compiling(t *testing.T, r *Runtime) {
	t.Helper()
	for range 10_000 {
		if len(r.build) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nothing is compiled")
}

func TestLoadEndsWithItsContext(t *testing.T) {
	r, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Load(ctx, slowPlugin(20)) }()
	compiling(t, r)
	soon(t, "Load", func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Load: %v", err)
		}
	})
	if len(r.build) == 0 {
		t.Fatal("the compilation ended before Load did: the test shows nothing")
	}
	soon(t, "Close", func() {
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	abandonedEnds(t, r)
}

func TestCloseDoesNotWaitForACompilation(t *testing.T) {
	r, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.Load(context.Background(), slowPlugin(21)) }()
	compiling(t, r)
	soon(t, "Close", func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
	})
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Load: %v", err)
	}
	abandonedEnds(t, r)
}

func TestCompileTimeout(t *testing.T) {
	r := newRuntime(t, Options{CompileTimeout: 30 * time.Millisecond})
	p := slowPlugin(22)
	for range 2 {
		soon(t, "Load", func() {
			err := r.Load(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), "plugin t: module bin/t.wasm: it takes longer than 30ms to compile") {
				t.Errorf("Load: %v", err)
			}
		})
	}
	if len(r.build) != 1 {
		t.Errorf("%d compilations of one module", len(r.build))
	}
	abandonedEnds(t, r)
}

// While compilations that nobody waits for have all places, others say so.
func TestWaitingForTheCompilerEnds(t *testing.T) {
	r := newRuntime(t, Options{CompileTimeout: 30 * time.Millisecond})
	for range cap(r.build) {
		r.build <- struct{}{}
	}
	p := newPlugin(emptyBlocks(3).module(1), plugins.ABIWASI, tool("run"))
	soon(t, "Load", func() {
		if err := r.Load(t.Context(), p); err == nil || !strings.Contains(err.Error(), "did not begin within 30ms") {
			t.Errorf("Load: %v", err)
		}
	})
	for range cap(r.build) {
		<-r.build
	}
	// What waited for a place gets it, and is compiled for nobody.
	deadline := time.Now().Add(time.Minute)
	for {
		r.mu.Lock()
		left := len(r.programs)
		r.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d programs are kept", left)
		}
		time.Sleep(time.Millisecond)
	}
	r.opts.CompileTimeout = time.Minute
	if err := r.Load(t.Context(), p); err != nil {
		t.Errorf("Load: %v", err)
	}
}
