package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Question is one whole input, ready to be put to a Candidate. It never changes and
// is safe for concurrent use.
type Question struct {
	input     ast.Object
	now       time.Time
	effective plugins.Capabilities // that a grant is held against
}

// ReadQuestion reads an input document as a policy sees it, arguments included. It
// is read as strictly as the gate reads arguments. Rules are asked at its now_ns;
// without one, now.
func ReadQuestion(doc json.RawMessage) (*Question, error) {
	return RecordedQuestion(doc, nil)
}

// ErrArguments is wrapped where the gate would not ask about the arguments.
var ErrArguments = errors.New("the gate does not ask about such arguments")

// RecordedQuestion puts an input together again that the ledger keeps in two parts:
// batch.DecisionRecord.Input, and the arguments of the call.
func RecordedQuestion(record, arguments json.RawMessage) (*Question, error) {
	v, err := parseJSON(record)
	if err != nil {
		return nil, fmt.Errorf("the input is no proper JSON: %w", err)
	}
	input, ok := v.(ast.Object)
	if !ok {
		return nil, errors.New("the input is not a JSON object")
	}
	if arguments != nil {
		args, err := parseArguments(arguments)
		if err != nil {
			return nil, err
		}
		call, ok := valueAt(input, "call").(ast.Object)
		if !ok {
			return nil, errors.New("the input has no call")
		}
		call.Insert(ast.InternedTerm("arguments"), ast.NewTerm(args))
	}
	q := &Question{input: input, now: time.Now()}
	if n, ok := valueAt(input, "now_ns").(ast.Number); ok {
		ns, ok := n.Int64()
		if !ok || ns <= 0 {
			return nil, fmt.Errorf("now_ns of the input is %s, it must be nanoseconds since 1970", n)
		}
		q.now = time.Unix(0, ns).UTC()
	}
	q.effective, err = capabilitiesOf(input)
	return q, err
}

// parseArguments reads arguments as the gate does, with its default limit.
func parseArguments(raw []byte) (ast.Value, error) {
	if len(raw) > DefaultMaxArgumentBytes {
		return nil, fmt.Errorf("the arguments are %d bytes, at most %d are allowed: %w", len(raw), DefaultMaxArgumentBytes, ErrArguments)
	}
	args, err := parseJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments are no proper JSON: %w: %w", ErrArguments, err)
	}
	if _, ok := args.(ast.Object); !ok {
		return nil, fmt.Errorf("the arguments are not a JSON object: %w", ErrArguments)
	}
	return args, nil
}

// QuestionAbout is the input that the gate would make of a query about a tool in
// force. Recent is not asked: what ran in the run counts as what the principal called
// within the last minute.
func QuestionAbout(q *batch.Query, t *plugins.Tool) (*Question, error) {
	sub, err := newSubject(t)
	if err != nil {
		return nil, err
	}
	args, err := parseArguments(q.Call.Arguments)
	if err != nil {
		return nil, err
	}
	counts := dict(q.Run.Counts)
	v, _, err := document(q, sub, &InputWindows{counts, counts, counts, counts}, args)
	if err != nil {
		return nil, err
	}
	input, ok := v.(ast.Object)
	if !ok {
		return nil, errors.New("the input is not a JSON object")
	}
	return &Question{input: input, now: q.Now, effective: t.Plugin.Effective}, nil
}

// Document is the whole input as JSON.
func (q *Question) Document() (json.RawMessage, error) {
	v, err := ast.JSON(q.input)
	if err != nil {
		return nil, err
	}
	return compactJSON(v)
}

// capabilitiesOf reads what the input says the plugin may use. What is absent is
// nothing, so that a grant cannot seem to give it.
func capabilitiesOf(input ast.Object) (plugins.Capabilities, error) {
	var c plugins.Capabilities
	tool := asObject(valueAt(input, "tool"))
	if tool == nil {
		return c, nil
	}
	caps := valueAt(tool, "capabilities")
	if caps == nil {
		return c, nil
	}
	raw, err := ast.JSON(caps)
	if err != nil {
		return c, err
	}
	doc, err := json.Marshal(raw)
	if err != nil {
		return c, err
	}
	var in InputCapabilities
	if err := json.Unmarshal(doc, &in); err != nil {
		return c, fmt.Errorf("tool.capabilities of the input are not what they should be: %w", err)
	}
	if in.TimeoutMS < 0 || in.TimeoutMS > math.MaxInt64/int64(time.Millisecond) {
		return c, errors.New("tool.capabilities.timeout_ms of the input is " + strconv.FormatInt(in.TimeoutMS, 10) + ", which is no duration")
	}
	return plugins.Capabilities{
		Hosts: in.Hosts, Paths: in.Paths, Commands: in.Commands, Secrets: in.Secrets,
		MemoryMiB: in.MemoryMiB, Timeout: time.Duration(in.TimeoutMS) * time.Millisecond,
	}, nil
}

// valueAt is the value under a key, nil if there is none.
func valueAt(o ast.Object, key string) ast.Value {
	if t := o.Get(ast.InternedTerm(key)); t != nil {
		return t.Value
	}
	return nil
}

// asObject is v if it is an object, else nil.
func asObject(v ast.Value) ast.Object {
	o, _ := v.(ast.Object)
	return o
}
