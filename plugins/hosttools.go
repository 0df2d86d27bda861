package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/schema"
	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// Ids of the two plugins that have no code: their tools are what the operator
// declares in host.toml. No plugin.toml may claim them.
const (
	ClientPluginID   = "client"   // tools that whoever submits the calls executes
	DelegatePluginID = "delegate" // tools that run further calls in a child run
)

// hostToolsForm is the version of such a plugin: the form in which its definitions
// are hashed.
const hostToolsForm = "1"

// HostTool is a tool that the host declares by itself, for want of a module.
type HostTool struct {
	ID          string // the name the model sees, without a prefix
	Description string
	// Schemas are JSON Schema 2020-12; nil: any object, or not checked. A delegation
	// tool has its own input and none is given here.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  map[string]any // anything that encodes to JSON
	Parallel     bool           // delegation tools: several calls of one batch may run side by side
}

// delegateInput is what a delegation tool takes: a batch in our own dialect.
const delegateInput = `{"type":"object","required":["calls"],"additionalProperties":false,"properties":{"calls":` +
	`{"type":"array","minItems":1,"maxItems":64,"items":{"type":"object","required":["id","tool"],"additionalProperties":false,` +
	`"properties":{"id":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}}}}}}`

// NewClientPlugin makes the plugin of the tools that the client executes: an
// allowed call waits for a result from outside. Nothing is kept of tools. The
// error is a *LoadError that wraps ErrSettings.
func NewClientPlugin(tools []HostTool) (*Plugin, error) {
	return newHostPlugin(ClientPluginID, "client_tool", tools, func(t *HostTool, s *ToolSpec) error {
		if t.Parallel {
			return errors.New("parallel is for delegation tools, remove it")
		}
		s.Target, s.Recovery = batch.TargetClient, batch.NonRecoverable
		return nil
	})
}

// NewDelegatePlugin makes the plugin of the delegation tools, otherwise as
// NewClientPlugin does. Its tools are pinned as durable_request: a child run is
// found again by the operation id.
func NewDelegatePlugin(tools []HostTool) (*Plugin, error) {
	p, err := newHostPlugin(DelegatePluginID, "delegate_tool", tools, func(t *HostTool, s *ToolSpec) error {
		if t.InputSchema != nil || t.OutputSchema != nil {
			return errors.New("a delegation tool has schemas of its own, remove input_schema and output_schema")
		}
		s.Target, s.Recovery = batch.TargetBrain, batch.DurableRequest
		s.Delegate, s.Parallel = true, t.Parallel
		s.InputSchema = json.RawMessage(delegateInput)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.Recovery = map[string]RecoveryChoice{}
	for i := range p.Manifest.Tools {
		p.Recovery[p.Manifest.Tools[i].ID] = RecoveryChoice{Policy: batch.RecoveryPolicy(batch.DurableRequest)}
	}
	return p, nil
}

// newHostPlugin checks the definitions and makes the plugin. Its digest is over all
// of them in a form that neither their order nor the layout of their JSON changes.
func newHostPlugin(id, key string, tools []HostTool, finish func(*HostTool, *ToolSpec) error) (*Plugin, error) {
	p := &Plugin{
		Manifest: &Manifest{ID: id, Version: hostToolsForm, Description: "Tools that host.toml declares as [[" + key + "]]"},
		Dir:      string(TrustedByHost), TrustedBy: TrustedByHost, Names: map[string]string{},
	}
	bad := func(i int, err error) (*Plugin, error) {
		return nil, &LoadError{Class: ErrSettings, File: p.Dir, Problem: fmt.Sprintf("[[%s]] %d (%s)", key, i+1, clip(tools[i].ID, 80)), Err: err}
	}
	for i := range tools {
		t := &tools[i]
		if _, twice := p.Names[t.ID]; twice {
			return bad(i, errors.New("another one has this id, rename one"))
		}
		s, err := t.spec()
		if err == nil {
			err = finish(t, s)
		}
		if err != nil {
			return bad(i, err)
		}
		p.Names[s.ID] = s.ID
		p.Manifest.Tools = append(p.Manifest.Tools, *s)
	}
	slices.SortFunc(p.Manifest.Tools, func(a, b ToolSpec) int { return strings.Compare(a.ID, b.ID) })
	text, err := json.Marshal(struct {
		Form   string
		Plugin string
		Tools  []ToolSpec
	}{hostToolsForm, id, p.Manifest.Tools})
	if err != nil {
		return nil, &LoadError{Class: ErrSettings, File: p.Dir, Problem: "the tools of [[" + key + "]] cannot be encoded", Err: err}
	}
	p.Digest = hexSum(text)
	return p, nil
}

func (t *HostTool) spec() (*ToolSpec, error) {
	if err := checkToolName(t.ID); err != nil {
		return nil, err
	}
	if err := CheckDescription(t.Description); err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	s := &ToolSpec{ID: t.ID, Description: t.Description}
	var err error
	if s.InputSchema, err = canonicalSchema(t.InputSchema); err != nil {
		return nil, fmt.Errorf("input_schema: %w", err)
	}
	if s.OutputSchema, err = canonicalSchema(t.OutputSchema); err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	if t.InputSchema != nil {
		if err := CheckInputSchema(s.InputSchema); err != nil {
			return nil, fmt.Errorf("input_schema: %w", err)
		}
	}
	if len(t.Annotations) > 0 {
		notes, err := json.Marshal(t.Annotations)
		if err == nil {
			var v any
			v, err = strictjson.Decode(notes)
			s.Annotations, _ = v.(map[string]any)
		}
		if err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}
	return s, nil
}

// canonicalSchema compiles a schema and writes it anew, with its keys sorted.
func canonicalSchema(raw json.RawMessage) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	if err := CheckSchema(raw); err != nil {
		return nil, err
	}
	v, err := strictjson.Decode(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// CheckSchema reports what keeps raw from being used as a JSON Schema of a tool.
func CheckSchema(raw json.RawMessage) error {
	if err := schema.Validate(raw); err != nil {
		return fmt.Errorf("not a usable JSON Schema: %w", err)
	}
	return nil
}

// CheckInputSchema is CheckSchema for arguments, which are always an object.
func CheckInputSchema(raw json.RawMessage) error {
	if err := CheckSchema(raw); err != nil {
		return err
	}
	var top struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(raw, &top) != nil || top.Type != "object" {
		return errors.New(`arguments are an object, write type = "object" at its top`)
	}
	return nil
}

// CheckDescription bounds a text that terminals and models will show.
func CheckDescription(text string) error {
	if len(text) > maxDescription {
		return fmt.Errorf("longer than %d bytes, shorten it", maxDescription)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }) {
		return errors.New("holds a control character, remove it")
	}
	return nil
}

// reserved reports whether the id is one of the two above.
func reserved(id string) bool { return id == ClientPluginID || id == DelegatePluginID }

// fromHost reports whether p is one of the two plugins above.
func (p *Plugin) fromHost() bool { return p.TrustedBy == TrustedByHost }

// TableJSON writes a decoded TOML table as JSON: dates and times become strings, as
// in a manifest.
func TableJSON(table map[string]any) (json.RawMessage, error) {
	v, err := jsonValue(table, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
