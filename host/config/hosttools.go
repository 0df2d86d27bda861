package config

import (
	"encoding/json"
	"fmt"

	"github.com/awaken-agents/awaken-host/plugins"
)

// decodeHostTools reads [[client_tool]] and [[delegate_tool]].
func (c *Config) decodeHostTools(root *table) {
	for _, t := range root.list("client_tool", "start each tool with [[client_tool]]") {
		h := decodeHostTool(t)
		h.InputSchema = t.object("input_schema", `write a JSON Schema as a table, such as { type = "object" }`)
		h.OutputSchema = t.object("output_schema", `write a JSON Schema as a table, such as { type = "object" }`)
		c.ClientTools = append(c.ClientTools, h)
	}
	for _, t := range root.list("delegate_tool", "start each tool with [[delegate_tool]]") {
		h := decodeHostTool(t)
		h.Parallel = defaultParallel
		t.flag("parallel", &h.Parallel)
		c.DelegateTools = append(c.DelegateTools, h)
	}
}

func decodeHostTool(t *table) plugins.HostTool {
	var h plugins.HostTool
	t.text("id", &h.ID)
	t.text("description", &h.Description)
	if notes := t.object("annotations", "write a table, such as { read_only = true }"); notes != nil {
		_ = json.Unmarshal(notes, &h.Annotations) // it was just written
	}
	return h
}

// object reads a table whose keys are free at every level, as JSON; nil where the
// key is missing.
func (t *table) object(key, remedy string) json.RawMessage {
	v, path, ok := t.take(key)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.r.bad(path, "is "+kind(v), remedy)
		return nil
	}
	raw, err := plugins.TableJSON(m)
	if err != nil {
		t.r.bad(path, "has no JSON form: "+err.Error(), "correct it")
		return nil
	}
	return raw
}

func (v *validator) hostTools() {
	first := map[string]string{}
	each := func(list string, tools []plugins.HostTool) {
		for i := range tools {
			key, t := element(list, i), &tools[i]
			switch other, dup := first[t.ID]; {
			case t.ID == "" && v.c.lines[child(key, "id")] == 0:
				v.bad(key, "has no id", `add id = "…", the name the model sees`)
			case !toolID(t.ID):
				v.bad(child(key, "id"), fmt.Sprintf("%q cannot be the name of a tool", clip(t.ID)), "write 1 to 64 characters of A-Z a-z 0-9 _ -")
			case dup:
				v.bad(child(key, "id"), "is that of "+other+" too", "give each tool a name of its own")
			default:
				first[t.ID] = key
			}
			if err := plugins.CheckDescription(t.Description); err != nil {
				v.bad(child(key, "description"), "is not usable: "+err.Error(), "correct it")
			}
			if t.InputSchema != nil {
				v.schema(child(key, "input_schema"), plugins.CheckInputSchema(t.InputSchema))
			}
			if t.OutputSchema != nil {
				v.schema(child(key, "output_schema"), plugins.CheckSchema(t.OutputSchema))
			}
		}
	}
	each("client_tool", v.c.ClientTools)
	each("delegate_tool", v.c.DelegateTools)
}

func (v *validator) schema(key string, err error) {
	if err != nil {
		v.bad(key, err.Error(), "correct the schema")
	}
}

func (e *effective) hostTools(list string, tools []plugins.HostTool, delegates bool) {
	for i := range tools {
		key, t := element(list, i), &tools[i]
		e.add(child(key, "id"), t.ID)
		e.add(child(key, "description"), t.Description)
		if t.InputSchema != nil {
			e.add(child(key, "input_schema"), t.InputSchema)
		}
		if t.OutputSchema != nil {
			e.add(child(key, "output_schema"), t.OutputSchema)
		}
		if t.Annotations != nil {
			e.add(child(key, "annotations"), t.Annotations)
		}
		if delegates {
			e.add(child(key, "parallel"), t.Parallel)
		}
	}
}
