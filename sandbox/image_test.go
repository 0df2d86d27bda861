package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/plugins"
)

// A Hand gets no schemas; the host, which checks by them, keeps its own.
func TestImageWithoutSchemas(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","title":"checked by the host"}`)
	p := fakeTool(t, func(p *plugins.Plugin) {
		p.Manifest.Tools[0].InputSchema, p.Manifest.Tools[0].OutputSchema = schema, schema
		p.Manifest.State = []plugins.StateSpec{{Key: "k", Schema: schema}}
	}).Tools()[0].Plugin
	img, err := newImage(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(img.text), "checked by the host") {
		t.Errorf("the Hand gets schemas: %s", img.text)
	}
	var got PluginImage
	if err := json.Unmarshal(img.text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Manifest.Tools) != 1 || got.Manifest.Tools[0].ID != "t" || len(got.Manifest.State) != 1 || got.Manifest.State[0].Key != "k" {
		t.Errorf("the Hand gets the tools %+v and the state %+v", got.Manifest.Tools, got.Manifest.State)
	}
	tool, state := p.Manifest.Tools[0], p.Manifest.State[0]
	for what, have := range map[string]json.RawMessage{"input": tool.InputSchema, "output": tool.OutputSchema, "state": state.Schema} {
		if string(have) != string(schema) {
			t.Errorf("the host's own schema of the %s is %q now", what, have)
		}
	}
}
