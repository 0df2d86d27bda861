package wasm

import (
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// warmed waits until so many instances were made ahead.
func warmed(t *testing.T, g *rig, n int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for g.warm() != n {
		if time.Now().After(deadline) {
			t.Fatalf("%d instances are ready, want %d", g.warm(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func (g *rig) warm() int {
	g.r.mu.Lock()
	l := g.r.loaded[g.p]
	g.r.mu.Unlock()
	return l.pool.warmCount()
}

func TestInstancesAreMadeAhead(t *testing.T) {
	r := newRuntime(t, Options{})
	p := isolated(t, plugins.IsolationCall)
	p.Warm = 2
	g := newRig(t, r, p)
	if err := r.Load(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	warmed(t, g, 2)
	if n := r.used(); n == 0 || n > 8<<20 {
		t.Errorf("two instances that wait hold %d bytes", n)
	}
	// None is used twice.
	for range 5 {
		good(t, g.call("count_static", `{}`), "1")
		good(t, g.call("count_var", `{}`), "1")
		good(t, g.call("echo", `{"w":"secret-42"}`), "secret-42")
		good(t, g.call("scavenge", `{}`), `"clean"`)
	}
	bad(t, g.call("trap", `{}`), "trapped")
	warmed(t, g, 2)
	// A call that policy narrowed has an instance with limits of its own.
	good(t, g.call("count_static", `{}`, func(c *batch.Call) { c.Grant = &batch.Grant{MemoryMiB: 8} }), "1")
	if n := g.warm(); n != 2 {
		t.Errorf("a narrowed call left %d of 2", n)
	}
	// They are the first to make room.
	r.quota.mu.Lock()
	r.quota.total = r.quota.used + 1
	r.quota.mu.Unlock()
	d := r.quota.ask(2)
	r.makeRoom()
	if !d.isMet() || g.warm() > 1 {
		t.Errorf("an instance made ahead did not make room: %d are left", g.warm())
	}
	r.quota.withdraw(d)
}

// A Go module's own initialization, most of what a fresh instance costs, is done
// ahead, once for each instance.
func TestModulesAreInitializedAhead(t *testing.T) {
	p := newPlugin(guest(t, "goguest"), plugins.ABIExtism, tool("echo"), tool("count"), tool("panics"))
	p.Warm = 1
	g := newRig(t, newRuntime(t, Options{}), p)
	if err := g.r.Load(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		warmed(t, g, 1)
		good(t, g.call("count", `{}`), "1")
	}
	warmed(t, g, 1)
	bad(t, g.call("panics", `{}`), "trapped", "panic: runtime error: index out of range")
	warmed(t, g, 1)
	good(t, g.call("echo", `{"a":1}`), `{"a":1}`)
}

// Code of a plugin that was granted anything does not run before a call was allowed.
func TestNothingRunsAheadOfPolicy(t *testing.T) {
	for name, granted := range map[string]plugins.Capabilities{
		"a folder": {Paths: map[string]string{"/w": "ro"}}, "a host": {Hosts: []string{"example.com"}},
		"a secret": {Secrets: []string{"KEY"}}, "a command": {Commands: []string{"git"}},
	} {
		if mayPrepare(&plugins.Plugin{Effective: granted}) {
			t.Errorf("code may run ahead with %s", name)
		}
	}
	for _, c := range []struct {
		module string
		hosts  []string
		ready  int
	}{
		{"init_trap.wat", nil, 0}, // it traps ahead, and there is none
		{"init_trap.wat", []string{"example.com"}, 1},
		{"start_trap.wat", nil, 0},
		{"start_trap.wat", []string{"example.com"}, 0},
	} {
		p := newPlugin(guest(t, c.module), plugins.ABIExtism, tool("run"))
		p.Warm, p.Effective.Hosts = 1, c.hosts
		r := newRuntime(t, Options{ReplacementsPerSecond: 1}) // so that what is lost stays lost
		g := newRig(t, r, p)
		if err := r.Load(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		l := r.loaded[p]
		r.mu.Unlock()
		for l.warming.Load() {
			time.Sleep(time.Millisecond)
		}
		l.throttle.mu.Lock()
		lost := l.throttle.most - l.throttle.left
		l.throttle.mu.Unlock()
		if n := g.warm(); n != c.ready || (lost >= 0.5) != (c.hosts == nil) {
			t.Errorf("%s, hosts %v: %d instances are ready, want %d; %v were lost", c.module, c.hosts, n, c.ready, lost)
		}
		bad(t, g.call("run", `{}`), "unreachable")
	}
}
