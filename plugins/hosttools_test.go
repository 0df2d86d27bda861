package plugins

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

func clientTools() []HostTool {
	return []HostTool{
		{ID: "ask_user", Description: "Asks the person at the keyboard",
			InputSchema:  json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}`),
			OutputSchema: json.RawMessage(`{"type":"object","required":["answer"]}`),
			Annotations:  map[string]any{"read_only": true, "weight": 2}},
		{ID: "open_file"},
	}
}

func TestClientPlugin(t *testing.T) {
	p, err := NewClientPlugin(clientTools())
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSnapshot([]*Plugin{p, loaded(t, manifestOf("a", "x"), nil)})
	if err != nil {
		t.Fatal(err)
	}
	tool, ok := s.Tool("ask_user")
	if !ok {
		t.Fatalf("there is no ask_user in %v", s.Tools())
	}
	d := tool.Descriptor()
	if d.ID != "ask_user" || d.Plugin != "client" || !d.Client || d.Target != batch.TargetClient || d.Digest != p.Digest || d.Recovery != batch.NeverReplay {
		t.Errorf("descriptor %+v", d)
	}
	if p.Module != nil || p.TrustedBy != TrustedByHost || !isHexSum(p.Digest) {
		t.Errorf("plugin %+v", p)
	}
	if err := tool.CheckArguments([]byte(`{}`)); err == nil || !strings.Contains(err.Error(), "question") {
		t.Errorf("arguments: %v", err)
	}
	if err := tool.CheckOutput(&batch.Output{Content: []batch.ContentBlock{batch.JSONBlock([]byte(`{"answer":1}`))}}); err != nil {
		t.Errorf("output: %v", err)
	}
	if err := tool.CheckOutput(&batch.Output{Content: []batch.ContentBlock{batch.TextBlock("1")}}); err == nil {
		t.Error("an output without a json block fits")
	}
	other, _ := s.Tool("a__x")
	if other.Descriptor().Client {
		t.Error("a tool of a module is executed by the client")
	}
}

func TestDelegatePlugin(t *testing.T) {
	p, err := NewDelegatePlugin([]HostTool{{ID: "delegate_work", Parallel: true}, {ID: "in_turn"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSnapshot([]*Plugin{p})
	if err != nil {
		t.Fatal(err)
	}
	for id, parallel := range map[batch.ToolID]bool{"delegate_work": true, "in_turn": false} {
		tool, ok := s.Tool(id)
		if !ok {
			t.Fatalf("there is no %s", id)
		}
		d := tool.Descriptor()
		if d.Client || d.Target != batch.TargetBrain || d.Recovery != "durable_request" || d.Recovery.AllowedBy(tool.Spec.Recovery) != nil {
			t.Errorf("descriptor %+v", d)
		}
		if !tool.Spec.Delegate || tool.Spec.Parallel != parallel {
			t.Errorf("spec %+v", tool.Spec)
		}
	}
	tool, _ := s.Tool("in_turn")
	for args, ok := range map[string]bool{
		`{"calls":[{"id":"a","tool":"t"}]}`:                     true,
		`{"calls":[{"id":"a","tool":"t","arguments":{"x":1}}]}`: true,
		`{"calls":[]}`:           false,
		`{}`:                     false,
		`{"calls":[{"id":"a"}]}`: false,
		`{"calls":[{"id":"a","tool":"t","arguments":[1]}]}`:                                          false,
		`{"calls":[{"id":"a","tool":"t","target":"brain"}]}`:                                         false,
		`{"calls":[{"id":"a","tool":"t"}],"run":"another"}`:                                          false,
		`{"calls":[` + strings.Repeat(`{"id":"a","tool":"t"},`, 64) + `{"id":"a","tool":"t"}` + `]}`: false,
	} {
		if err := tool.CheckArguments([]byte(args)); (err == nil) != ok {
			t.Errorf("%.60s: %v", args, err)
		}
	}
}

// The digest is what a parked call is bound to: it follows what the definitions
// say, and nothing else.
func TestDigestOfDefinitions(t *testing.T) {
	digest := func(change func([]HostTool) []HostTool) string {
		p, err := NewClientPlugin(change(clientTools()))
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest
	}
	same := digest(func(ts []HostTool) []HostTool { return ts })
	for name, change := range map[string]func([]HostTool) []HostTool{
		"another order": func(ts []HostTool) []HostTool { ts[0], ts[1] = ts[1], ts[0]; return ts },
		"another layout": func(ts []HostTool) []HostTool {
			ts[0].InputSchema = json.RawMessage("{\n \"required\": [\"question\"],\n \"properties\": {\"question\": {\"type\": \"string\"}}, \"type\": \"object\"}")
			return ts
		},
		"another Go type": func(ts []HostTool) []HostTool { ts[0].Annotations["weight"] = int64(2); return ts },
	} {
		if got := digest(change); got != same {
			t.Errorf("%s: the digest changed", name)
		}
	}
	seen := map[string]string{same: "nothing"}
	for name, change := range map[string]func([]HostTool) []HostTool{
		"id":            func(ts []HostTool) []HostTool { ts[1].ID = "open"; return ts },
		"description":   func(ts []HostTool) []HostTool { ts[1].Description = "Opens"; return ts },
		"input_schema":  func(ts []HostTool) []HostTool { ts[1].InputSchema = json.RawMessage(`{"type":"object"}`); return ts },
		"output_schema": func(ts []HostTool) []HostTool { ts[0].OutputSchema = nil; return ts },
		"annotations":   func(ts []HostTool) []HostTool { ts[0].Annotations["read_only"] = false; return ts },
		"one fewer":     func(ts []HostTool) []HostTool { return ts[:1] },
	} {
		got := digest(change)
		if other, dup := seen[got]; dup {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[got] = name
	}
	d, err := NewDelegatePlugin([]HostTool{{ID: "open_file"}})
	if err != nil || seen[d.Digest] != "" {
		t.Errorf("a delegation tool has the digest of %s, err %v", seen[d.Digest], err)
	}
}

// What the operator gave may be changed afterwards: nothing of it is kept.
func TestDefinitionsAreCopied(t *testing.T) {
	tools := clientTools()
	p, err := NewClientPlugin(tools)
	if err != nil {
		t.Fatal(err)
	}
	tools[0].Annotations["read_only"] = false
	tools[0].InputSchema[2] = 'X'
	spec := p.Manifest.Tools[0]
	if spec.Annotations["read_only"] != true || !json.Valid(spec.InputSchema) || strings.Contains(string(spec.InputSchema), "X") {
		t.Errorf("spec %+v", spec)
	}
}

func TestHostToolsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make  func([]HostTool) (*Plugin, error)
		tools []HostTool
		want  string
	}{
		"no id":               {NewClientPlugin, []HostTool{{}}, "tool name"},
		"bad id":              {NewClientPlugin, []HostTool{{ID: "ask user"}}, "tool name"},
		"id that is too long": {NewClientPlugin, []HostTool{{ID: strings.Repeat("x", 65)}}, "at most 64"},
		"id twice":            {NewClientPlugin, []HostTool{{ID: "a"}, {ID: "a"}}, "[[client_tool]] 2 (a): another one has this id"},
		"not a schema":        {NewClientPlugin, []HostTool{{ID: "a", InputSchema: json.RawMessage(`{"type":"objekt"}`)}}, "input_schema: not a usable JSON Schema"},
		"no JSON":             {NewClientPlugin, []HostTool{{ID: "a", OutputSchema: json.RawMessage(`{`)}}, "output_schema"},
		"schema from a file":  {NewClientPlugin, []HostTool{{ID: "a", OutputSchema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)}}, "not loaded"},
		"array arguments":     {NewClientPlugin, []HostTool{{ID: "a", InputSchema: json.RawMessage(`{"type":"array"}`)}}, `type = "object"`},
		"escape in the text":  {NewClientPlugin, []HostTool{{ID: "a", Description: "\x1b[2J"}}, "control character"},
		"annotation":          {NewClientPlugin, []HostTool{{ID: "a", Annotations: map[string]any{"n": math.NaN()}}}, "annotations"},
		"parallel client":     {NewClientPlugin, []HostTool{{ID: "a", Parallel: true}}, "parallel"},
		"delegate schema":     {NewDelegatePlugin, []HostTool{{ID: "a", InputSchema: json.RawMessage(`{"type":"object"}`)}}, "[[delegate_tool]] 1 (a): a delegation tool has schemas of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.make(c.tools)
			var le *LoadError
			if !errors.As(err, &le) || !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err %v, want %q in it", err, c.want)
			}
		})
	}
}

// No plugin of an author poses as the operator's own tools, by file or in memory.
func TestReservedIDs(t *testing.T) {
	for _, id := range []string{"client", "delegate"} {
		if _, err := ParseManifest("plugin.toml", []byte(manifestOf(id, "x"))); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "plugin.toml:2: id") {
			t.Errorf("%s: err %v", id, err)
		}
		p := loaded(t, manifestOf("a", "x"), func(p *Plugin) { p.Manifest.ID = id })
		if _, err := NewSnapshot([]*Plugin{p}); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: err %v", id, err)
		}
	}
	p := loaded(t, manifestOf("a", "x"), func(p *Plugin) { p.TrustedBy = TrustedByHost })
	if _, err := NewSnapshot([]*Plugin{p}); !errors.Is(err, ErrManifest) {
		t.Errorf("a plugin that host.toml vouches for: err %v", err)
	}
	if _, err := ParseManifest("plugin.toml", []byte(manifestOf("a", "x")+"delegate = true\nparallel = true\n")); err == nil {
		t.Error("a manifest declares a delegation")
	}
}

func TestCollisionWithAHostTool(t *testing.T) {
	c, err := NewClientPlugin([]HostTool{{ID: "a__x"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewSnapshot([]*Plugin{loaded(t, manifestOf("a", "x"), nil), c})
	if !errors.Is(err, ErrNames) || !strings.Contains(err.Error(), `give the client tool "a__x" another id`) {
		t.Errorf("err %v", err)
	}
}
