package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Op is what a Command does to its key.
type Op string

// The operations. Append adds Value to the end of an array (a missing key is an
// empty one); increment adds the number Value (a missing key is 0).
const (
	OpSet       Op = "set"
	OpDelete    Op = "delete"
	OpAppend    Op = "append"
	OpIncrement Op = "increment"
)

// Command is a change of run state that a tool asks for. Key is one the tool's
// manifest declares; Value is absent for delete.
type Command struct {
	Op    Op              `json:"op"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// MaxStateValueBytes bounds the value of one state key.
const MaxStateValueBytes = 1 << 20

// stateKey is where a plugin's declared key stands in the state of a run: each
// plugin has its own names, so that no plugin reads or overwrites another's.
func stateKey(plugin, key string) string { return plugin + "/" + key }

// state is run state as a batch sees it: what is published, and on top of it what
// the batch's completed calls have staged. A nil staged value is a deletion.
type state struct {
	published map[string]json.RawMessage
	staged    map[string]json.RawMessage
}

func (s *state) get(key string) json.RawMessage {
	if v, ok := s.staged[key]; ok {
		return v
	}
	return s.published[key]
}

// view is the published state of one plugin, under the names it declared.
func (s *state) view(plugin string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for k, v := range s.published {
		if name, ok := strings.CutPrefix(k, plugin+"/"); ok {
			out[name] = v
		}
	}
	return out
}

// stage applies cmds in order on top of the state, all or none. Check validates
// each resulting value by declared key; nil checks nothing (replaying what was
// validated when it was committed).
func (s *state) stage(plugin string, cmds []Command, check func(key string, v json.RawMessage) error) error {
	next := map[string]json.RawMessage{}
	for i, c := range cmds {
		full := stateKey(plugin, c.Key)
		old, ok := next[full]
		if !ok {
			old = s.get(full)
		}
		v, err := c.apply(old)
		if err == nil && len(v) > MaxStateValueBytes {
			err = fmt.Errorf("the value would be %d bytes, at most %d are allowed", len(v), MaxStateValueBytes)
		}
		if err == nil && check != nil {
			err = check(c.Key, v)
		}
		if err != nil {
			return fmt.Errorf("state command %d (%s %q): %w", i, c.Op, c.Key, err)
		}
		next[full] = v
	}
	if s.staged == nil {
		s.staged = map[string]json.RawMessage{}
	}
	for k, v := range next {
		s.staged[k] = v
	}
	return nil
}

// writes are the staged changes, in key order.
func (s *state) writes() []StateWrite {
	out := make([]StateWrite, 0, len(s.staged))
	for k, v := range s.staged {
		out = append(out, StateWrite{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b StateWrite) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// apply computes the value the command leaves; nil means deleted.
func (c Command) apply(old json.RawMessage) (json.RawMessage, error) {
	if c.Op == OpDelete {
		if c.Value != nil {
			return nil, errors.New("delete has no value")
		}
		return nil, nil
	}
	var value bytes.Buffer
	if err := json.Compact(&value, c.Value); err != nil {
		return nil, fmt.Errorf("the value is not valid JSON: %w", err)
	}
	switch c.Op {
	case OpSet:
		return value.Bytes(), nil
	case OpAppend:
		var list []json.RawMessage
		if old != nil {
			if err := json.Unmarshal(old, &list); err != nil {
				return nil, errors.New("append needs an array, the key holds something else")
			}
		}
		var out bytes.Buffer
		out.WriteByte('[')
		for _, v := range list {
			out.Write(v)
			out.WriteByte(',')
		}
		out.Write(value.Bytes())
		out.WriteByte(']')
		return out.Bytes(), nil
	case OpIncrement:
		if old == nil {
			old = json.RawMessage("0")
		}
		return addNumbers(string(old), value.String())
	}
	return nil, fmt.Errorf("unknown op: set, delete, append and increment are known")
}

// addNumbers adds two JSON numbers: integers exactly, others as float64.
func addNumbers(a, b string) (json.RawMessage, error) {
	x, okX := parseInteger(a)
	y, okY := parseInteger(b)
	if okX && okY {
		return json.RawMessage(x.Add(x, y).String()), nil
	}
	f, errX := strconv.ParseFloat(a, 64)
	g, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return nil, errors.New("increment needs numbers, in the key and in the value")
	}
	sum := f + g
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil, errors.New("the sum is outside the range of a number")
	}
	return json.Marshal(sum)
}

func parseInteger(s string) (*big.Int, bool) {
	if len(s) > 400 || strings.ContainsAny(s, ".eE") {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}
