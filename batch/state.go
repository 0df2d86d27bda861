package batch

import "encoding/json"

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
