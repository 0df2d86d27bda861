package plugins

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// loaded makes a plugin as Load would return it, from a manifest.
func loaded(t testing.TB, text string, change func(*Plugin)) *Plugin {
	t.Helper()
	m, err := ParseManifest("plugin.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{Manifest: m, Dir: "plugins/" + m.ID, Digest: hexSum([]byte(text)), TrustedBy: TrustedByPin, OutputMiB: 16,
		Effective: Capabilities{MemoryMiB: 64, Timeout: time.Second}}
	if change != nil {
		change(p)
	}
	return p
}

// manifestOf is a manifest with an id and tools.
func manifestOf(id string, tools ...string) string {
	text := "manifest = 1\nid = \"" + id + "\"\nversion = \"1\"\n[module]\npath = \"m.wasm\"\nabi = \"extism\"\n"
	for _, tool := range tools {
		text += "[[tool]]\nid = \"" + tool + "\"\nexport = \"x\"\n"
	}
	return text
}

func named(names map[string]string) func(*Plugin) { return func(p *Plugin) { p.Names = names } }

func TestSnapshotNames(t *testing.T) {
	long := strings.Repeat("t", 60)
	for _, c := range []struct {
		name    string
		plugins func(t *testing.T) []*Plugin
		want    []string // model-visible names
		words   []string // of the refusal
	}{
		{"two plugins", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("b", "y", "x"), nil), loaded(t, manifestOf("a", "_z"), nil)}
		}, []string{"a___z", "b__x", "b__y"}, nil},
		{"override", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x", "y"), named(map[string]string{"x": "search"}))}
		}, []string{"a__y", "search"}, nil},
		{"none", func(*testing.T) []*Plugin { return nil }, nil, nil},
		{"same id", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x"), nil), loaded(t, manifestOf("a", "y"), func(p *Plugin) { p.Dir = "elsewhere/a" })}
		}, nil, []string{`"a"`, "plugins/a", "elsewhere/a"}},
		{"collision", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x"), nil), loaded(t, manifestOf("b", "y"), named(map[string]string{"y": "a__x"}))}
		}, nil, []string{`tool "x" of plugin "a"`, `tool "y" of plugin "b"`, `"a__x"`, "[plugin.names]"}},
		{"collision with a name that was given", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x"), named(map[string]string{"x": "b__y"})), loaded(t, manifestOf("b", "y"), nil)}
		}, nil, []string{`"b__y"`, `give tool "x" of plugin "a" another name in [plugin.names]`}},
		{"collision within", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x", "y"), named(map[string]string{"y": "a__x"}))}
		}, nil, []string{"[plugin.names]"}},
		{"too long", func(t *testing.T) []*Plugin { return []*Plugin{loaded(t, manifestOf("abc", long), nil)} },
			nil, []string{"65 bytes", "[plugin.names]"}},
		{"too long, renamed", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("abc", long), named(map[string]string{long: "short"}))}
		}, []string{"short"}, nil},
		{"bad override", func(t *testing.T) []*Plugin {
			return []*Plugin{loaded(t, manifestOf("a", "x"), named(map[string]string{"x": "a:x"}))}
		}, nil, []string{"[plugin.names]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewSnapshot(c.plugins(t))
			if len(c.words) > 0 {
				if !errors.Is(err, ErrNames) {
					t.Fatalf("%v", err)
				}
				for _, w := range c.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("the message lacks %q: %v", w, err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range s.Tools() {
				got = append(got, string(tool.Name))
				viaCatalog, ok := s.Lookup(tool.Name)
				if direct, ok2 := s.Tool(tool.Name); !ok || !ok2 || viaCatalog != batch.Tool(direct) || direct != tool {
					t.Errorf("%s is not found", tool.Name)
				}
				if d := tool.Descriptor(); d.ID != tool.Name || d.Plugin != tool.Plugin.Manifest.ID || d.Digest != tool.Plugin.Digest ||
					d.Recovery != batch.NeverReplay || d.Target != batch.TargetBrain {
					t.Errorf("descriptor %+v", d)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if tool, ok := s.Lookup("nobody"); ok || tool != nil {
				t.Errorf("found %v", tool)
			}
		})
	}
}

func TestDescriptorCarriesTheOperatorsChoice(t *testing.T) {
	text := manifestOf("a", "x") + "target = \"sandbox\"\nrecovery = \"replay_safe\"\n"
	s, err := NewSnapshot([]*Plugin{loaded(t, text, func(p *Plugin) {
		p.Recovery = map[string]RecoveryChoice{"x": {Policy: "replay_safe", MaxAttempts: 7}}
	})})
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := s.Lookup("a__x")
	if d := tool.Descriptor(); d.Recovery != "replay_safe" || d.MaxAttempts != 7 || d.Target != batch.TargetSandbox {
		t.Errorf("%+v", d)
	}
}

// Everything that changes what the set may do changes its fingerprint; order of
// loading does not.
func TestFingerprint(t *testing.T) {
	of := func(change func(*Plugin), more ...*Plugin) string {
		s, err := NewSnapshot(append([]*Plugin{loaded(t, manifestOf("a", "x", "y"), change)}, more...))
		if err != nil {
			t.Fatal(err)
		}
		return s.Fingerprint()
	}
	base := of(nil)
	if of(nil) != base {
		t.Error("not stable")
	}
	b, c := loaded(t, manifestOf("b", "x"), nil), loaded(t, manifestOf("c", "x"), nil)
	if of(nil, b, c) != of(nil, c, b) {
		t.Error("depends on order")
	}
	seen := map[string]string{base: "nothing", of(nil, b): "another plugin"}
	for name, change := range map[string]func(*Plugin){
		"digest":   func(p *Plugin) { p.Digest = hexSum(nil) },
		"host":     func(p *Plugin) { p.Effective.Hosts = []string{"h"} },
		"path":     func(p *Plugin) { p.Effective.Paths = map[string]string{"/a": "ro"} },
		"mode":     func(p *Plugin) { p.Effective.Paths = map[string]string{"/a": "rw"} },
		"folder":   func(p *Plugin) { p.Grant = &Grant{Paths: map[string]PathGrant{"/a": {Host: "h"}}} },
		"command":  func(p *Plugin) { p.Effective.Commands = []string{"h"} },
		"memory":   func(p *Plugin) { p.Effective.MemoryMiB = 1 },
		"timeout":  func(p *Plugin) { p.Effective.Timeout = 1 },
		"output":   func(p *Plugin) { p.OutputMiB = 1 },
		"config":   func(p *Plugin) { p.Config = map[string]string{"a": "b"} },
		"recovery": func(p *Plugin) { p.Recovery = map[string]RecoveryChoice{"x": {MaxAttempts: 1}} },
		"name":     named(map[string]string{"x": "z"}),
		"swapped":  named(map[string]string{"x": "a__y", "y": "a__x"}),
	} {
		fp := of(change)
		if other, dup := seen[fp]; dup {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[fp] = name
	}
}

func TestRegistrySwapsWhole(t *testing.T) {
	var r Registry
	if s := r.Load(); len(s.Tools()) != 0 || s.Fingerprint() == "" {
		t.Error("the zero registry is not empty")
	}
	snapshots := map[string]*Snapshot{}
	for _, id := range []string{"a", "b"} {
		s, err := NewSnapshot([]*Plugin{loaded(t, manifestOf(id, "x", "y"), nil)})
		if err != nil {
			t.Fatal(err)
		}
		snapshots[id] = s
	}
	if old := r.Swap(snapshots["a"]); len(old.Tools()) != 0 {
		t.Error("something was there before")
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				if i < 2 {
					r.Swap(snapshots[string(rune('a'+j%2))])
					continue
				}
				tools := r.Load().Tools()
				if len(tools) != 2 || tools[0].Plugin != tools[1].Plugin {
					t.Error("a mix of two snapshots")
					return
				}
				if err := tools[0].CheckArguments([]byte(`{"a":1}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r.Swap(nil); len(r.Load().Tools()) != 0 {
		t.Error("nil is not empty")
	}
}
