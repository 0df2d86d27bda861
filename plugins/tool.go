package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/schema"
	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// Tool is one tool of a Snapshot under the name the model sees. It is a
// batch.Tool: safe for concurrent use, never changes.
type Tool struct {
	Name   batch.ToolID
	Plugin *Plugin
	Spec   *ToolSpec

	input  schema.Checker            // nil: any object
	output schema.Checker            // nil: not checked
	state  map[string]schema.Checker // by declared key; nil value: any JSON
}

var _ batch.Tool = (*Tool)(nil)

// newTool compiles the schemas of spec; state is shared by the plugin's tools.
func newTool(name batch.ToolID, p *Plugin, spec *ToolSpec, state map[string]schema.Checker) (*Tool, error) {
	t := &Tool{Name: name, Plugin: p, Spec: spec, state: state}
	var err error
	if t.input, err = optionalSchema(spec.InputSchema); err != nil {
		return nil, fmt.Errorf("input_schema: %w", err)
	}
	if t.output, err = optionalSchema(spec.OutputSchema); err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	return t, nil
}

func optionalSchema(raw json.RawMessage) (schema.Checker, error) {
	if raw == nil {
		return nil, nil
	}
	return schema.Compile(raw)
}

// Descriptor is what the ledger pins. The digest is that of the manifest, which
// names the module's, or of the definitions in host.toml.
func (t *Tool) Descriptor() batch.Descriptor {
	choice := t.Plugin.Recovery[t.Spec.ID]
	return batch.Descriptor{
		ID: t.Name, Plugin: t.Plugin.Manifest.ID, Digest: t.Plugin.Digest, Target: t.Spec.Target,
		Recovery: choice.policy(), MaxAttempts: choice.MaxAttempts,
		Client: t.Spec.Target == batch.TargetClient,
	}
}

// CheckArguments accepts one JSON object that the input schema accepts and that
// every reader reads alike: UTF-8, no key twice at any level, bounded depth,
// numbers a double can hold. The error is short, names the place as a JSON pointer
// and the rule, and is fit for the model.
func (t *Tool) CheckArguments(args []byte) error {
	v, err := strictjson.Decode(args)
	if err != nil {
		return fmt.Errorf("the arguments of %s are refused: %w", t.Name, err)
	}
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("the arguments of %s must be a JSON object", t.Name)
	}
	if t.input == nil {
		return nil
	}
	if err := t.input.Check(v, len(args)); err != nil {
		return fmt.Errorf("the arguments of %s do not fit its input schema: %w", t.Name, err)
	}
	return nil
}

// CheckOutput checks a successful output of a tool with an output schema: it must
// have at least one json block, and every json block must fit the schema. Other
// blocks are free.
func (t *Tool) CheckOutput(out *batch.Output) error {
	if t.output == nil {
		return nil
	}
	found := false
	for i, b := range out.Content {
		if b.Type != batch.BlockJSON {
			continue
		}
		found = true
		v, err := strictjson.Decode(b.JSON)
		if err == nil {
			err = t.output.Check(v, len(b.JSON))
		}
		if err != nil {
			return fmt.Errorf("the output of %s does not fit its output schema: block %d: %w", t.Name, i, err)
		}
	}
	if !found {
		return fmt.Errorf("the output of %s does not fit its output schema: it has no json block", t.Name)
	}
	return nil
}

// CheckState checks the value that a state key would have against the schema the
// manifest declares for it; a nil value is a deletion. An undeclared key is an
// error either way.
func (t *Tool) CheckState(key string, value json.RawMessage) error {
	s, declared := t.state[key]
	if !declared {
		keys := slices.Sorted(maps.Keys(t.state))
		return fmt.Errorf("plugin %s declares no state key %q%s", t.Plugin.Manifest.ID, clip(key, 80), didYouMean(key, keys))
	}
	if value == nil { // a deletion: there is nothing to hold against the schema
		return nil
	}
	v, err := strictjson.Decode(value)
	if err == nil && s != nil {
		err = s.Check(v, len(value))
	}
	if err != nil {
		return fmt.Errorf("state key %q of plugin %s: %w", key, t.Plugin.Manifest.ID, err)
	}
	return nil
}

// stateSchemas compiles the state declarations of a plugin.
func stateSchemas(p *Plugin) (map[string]schema.Checker, error) {
	out := map[string]schema.Checker{}
	for _, d := range p.Manifest.State {
		if _, twice := out[d.Key]; twice {
			return nil, errors.New("the key " + d.Key + " is declared twice")
		}
		s, err := optionalSchema(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Key, err)
		}
		out[d.Key] = s
	}
	return out, nil
}
