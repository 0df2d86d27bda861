package decisionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
)

// decisionPath is the document that was asked, as OPA writes it.
const decisionPath = "awaken/gate/decision"

// event is a decision in the shape of OPA's decision log (EventV1). The id comes
// first, so that a line is recognised by its beginning.
type event struct {
	DecisionID  string            `json:"decision_id"` // "<operation>/<seq>"
	Timestamp   time.Time         `json:"timestamp"`
	Labels      map[string]string `json:"labels"`
	Bundles     map[string]bundle `json:"bundles,omitempty"`
	Path        string            `json:"path"`
	Input       any               `json:"input,omitempty"`
	Result      any               `json:"result,omitempty"`
	Erased      []string          `json:"erased,omitempty"`
	Masked      []string          `json:"masked,omitempty"`
	RequestedBy string            `json:"requested_by,omitempty"`
	Metrics     map[string]int64  `json:"metrics,omitempty"`
	Custom      map[string]any    `json:"custom,omitempty"`
}

type bundle struct {
	Revision string `json:"revision,omitempty"`
}

// describe makes the event of a record, before anything is hidden. What the policy
// was not asked about (an unknown tool, arguments that break the schema) has an input
// of the same shape as far as it is known.
func describe(r *batch.DecisionRecord, c *batch.Call, labels map[string]string) (*event, error) {
	input := map[string]any{}
	if len(r.Input) > 0 {
		v, err := decode(r.Input)
		if err != nil {
			return nil, fmt.Errorf("the input of decision %s: %w", r.ID(), err)
		}
		if m, ok := v.(map[string]any); ok {
			input = m
		}
	}
	tool := object(input, "tool")
	tool["id"] = string(r.Tool)
	setText(tool, "digest", r.ToolDigest)
	call := object(input, "call")
	call["id"], call["operation"] = string(c.ID), string(r.Operation)
	call["arguments"] = argumentsOf(c.Arguments)
	run := object(input, "run")
	run["id"], run["step"] = string(c.Run), c.Step
	setText(run, "principal", r.Principal)
	setText(run, "agent", r.Agent)
	result := map[string]any{"outcome": string(r.Outcome)}
	for key, part := range map[string]any{"approval": r.Approval, "reasons": r.Reasons, "grant": r.Grant} {
		v, err := plain(part)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the %s of decision %s: %w", key, r.ID(), err)
		case v == nil:
		case key == "approval":
			input[key] = v
		default:
			result[key] = v
		}
	}
	e := &event{
		DecisionID: r.ID(), Timestamp: r.Time.UTC(), Labels: labels, Path: decisionPath, Input: input, Result: result,
		RequestedBy: r.Principal,
		Metrics:     map[string]int64{"timer_rego_query_eval_ns": r.Elapsed.Nanoseconds()},
		Custom:      map[string]any{"seq": r.Seq, "argument_digest": r.ArgumentDigest},
	}
	if r.PolicyRevision != "" {
		e.Bundles = map[string]bundle{"policy": {r.PolicyRevision}}
	}
	return e, nil
}

// object returns the object at key, made when there is none.
func object(m map[string]any, key string) map[string]any {
	o, ok := m[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		m[key] = o
	}
	return o
}

func setText(m map[string]any, key, text string) {
	if text != "" {
		m[key] = text
	}
}

// argumentsOf is the object that the model wrote, or, when it wrote none that can be
// read in one way only, its text.
func argumentsOf(raw []byte) any {
	if v, err := decode(raw); err == nil {
		if m, ok := v.(map[string]any); ok {
			return m
		}
	}
	return strings.ToValidUTF8(string(raw), string(utf8.RuneError))
}

// plain turns a value into maps and lists; nil stays nil.
func plain(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// decode reads JSON with its numbers as they are written. A key that is there twice
// is an error: what is hidden under one could show under the other.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := decodeValue(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end of the document")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		m := map[string]any{}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, ok := k.(string)
			if !ok {
				return nil, errors.New("a key is no text")
			}
			if _, twice := m[key]; twice {
				return nil, fmt.Errorf("key %q is there twice", key)
			}
			if m[key], err = decodeValue(dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return m, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return t, nil
}
