package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Input is the document a policy sees as input. What is unknown is absent, never
// null, and every list and map is present, if only empty. Its tags are what
// InputSchema is made of: change them together with what is documented.
type Input struct {
	Tool     InputTool      `json:"tool" doc:"the tool, as the trusted manifest and the operator describe it"`
	Call     InputCall      `json:"call" doc:"the call, as the model wrote it"`
	Run      InputRun       `json:"run" doc:"the conversation the call belongs to"`
	History  InputHistory   `json:"history" doc:"what was executed before this call"`
	Approval *InputApproval `json:"approval,omitempty" doc:"only when a parked call comes back"`
	Now      string         `json:"now" doc:"the time, as in RFC 3339, in UTC; one for all rules of a decision"`
	NowNS    int64          `json:"now_ns" doc:"the same in nanoseconds since 1970, as time.now_ns()"`
}

// InputTool is the tool as the trusted manifest and the operator describe it.
// Nothing in it comes from the model.
type InputTool struct {
	ID           batch.ToolID      `json:"id" doc:"the name the model sees"`
	Plugin       string            `json:"plugin" doc:"the plugin's id"`
	Version      string            `json:"version" doc:"the plugin's version"`
	Digest       string            `json:"digest" doc:"SHA-256 of the manifest, in hex"`
	Signer       string            `json:"signer,omitempty" doc:"id of the key that signed it, in hex; absent without a signature"`
	TrustedBy    plugins.TrustedBy `json:"trusted_by" doc:"why it is trusted" enum:"signature,pin,unsigned,host.toml"`
	Target       batch.Target      `json:"target" doc:"where it runs" enum:"brain,sandbox,client"`
	Capabilities InputCapabilities `json:"capabilities" doc:"what the plugin may use here: its manifest, narrowed by the operator's grant"`
	Annotations  map[string]any    `json:"annotations" doc:"from the manifest, for example read_only"`
}

// InputCapabilities is what the plugin may use here: its manifest, narrowed by the
// operator's grant.
type InputCapabilities struct {
	Hosts     []string          `json:"hosts" doc:"hosts that it may reach"`
	Paths     map[string]string `json:"paths" doc:"guest path to ro or rw"`
	Commands  []string          `json:"commands" doc:"commands that it may run in a sandbox"`
	Secrets   []string          `json:"secrets" doc:"names of the secrets that it may read"`
	MemoryMiB int               `json:"memory_mib" doc:"memory in MiB"`
	TimeoutMS int64             `json:"timeout_ms" doc:"time for a call in milliseconds"`
}

// InputCall is the call as the model wrote it.
type InputCall struct {
	ID        batch.CallID      `json:"id" doc:"the provider's id, unique within a batch only"`
	Operation batch.OperationID `json:"operation" doc:"run/step/index, unique"`
	// Arguments is what the model wrote, always an object. It is left out of
	// batch.Decision.Input, since the call's record has it.
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"what the model wrote: an object that fits the tool's schema" schema:"required"`
}

// InputRun is the conversation the call belongs to.
type InputRun struct {
	ID        batch.RunID       `json:"id" doc:"the run's id"`
	Principal string            `json:"principal,omitempty" doc:"who submitted it; absent when not given"`
	Agent     string            `json:"agent,omitempty" doc:"the agent; absent when not given"`
	Step      int               `json:"step" doc:"the step of the run, from 1"`
	Labels    map[string]string `json:"labels" doc:"from whoever started the run"`
}

// InputHistory counts what was executed before this call. A tool that was never
// called is absent.
type InputHistory struct {
	Run       map[batch.ToolID]int `json:"run" doc:"calls in this run, by tool"`
	Principal *InputWindows        `json:"principal,omitempty" doc:"calls in all runs of this principal, by window and tool; only where the policy looks at it"`
}

// InputWindows counts calls by tool in the time before this call. A call counts from
// when it was allowed to run; see batch.Query.Recent.
type InputWindows struct {
	Minute     map[batch.ToolID]int `json:"1m" doc:"in the last minute"`
	TenMinutes map[batch.ToolID]int `json:"10m" doc:"in the last 10 minutes"`
	Hour       map[batch.ToolID]int `json:"1h" doc:"in the last hour"`
	Day        map[batch.ToolID]int `json:"24h" doc:"in the last 24 hours"`
}

// InputApproval says how the call came back from waiting.
type InputApproval struct {
	Kind      batch.TicketKind `json:"kind" doc:"what it waited for" enum:"permission,schedule,external_result"`
	Ticket    batch.TicketID   `json:"ticket" doc:"the ticket's id"`
	By        []string         `json:"by" doc:"who approved; empty for a schedule"`
	At        string           `json:"at" doc:"when, as in RFC 3339, in UTC"`
	Requested string           `json:"requested" doc:"when the call was parked"`
}

// subject is a tool as a policy sees it, made once for each tool in force.
type subject struct {
	tool *plugins.Tool
	doc  json.RawMessage // InputTool
	term *ast.Term       // the same; shared by evaluations, which do not change it
}

func newSubject(t *plugins.Tool) (*subject, error) {
	p, e := t.Plugin, t.Plugin.Effective
	doc, err := json.Marshal(InputTool{
		ID: t.Name, Plugin: p.Manifest.ID, Version: p.Manifest.Version, Digest: p.Digest,
		Signer: p.Signer, TrustedBy: p.TrustedBy, Target: t.Spec.Target,
		Capabilities: InputCapabilities{
			Hosts: list(e.Hosts), Paths: dict(e.Paths), Commands: list(e.Commands), Secrets: list(e.Secrets),
			MemoryMiB: e.MemoryMiB, TimeoutMS: e.Timeout.Milliseconds(),
		},
		Annotations: dict(t.Spec.Annotations),
	})
	if err != nil {
		return nil, fmt.Errorf("tool %s cannot be described to a policy: %w", t.Name, err)
	}
	v, err := parseJSON(doc)
	if err != nil {
		return nil, fmt.Errorf("tool %s cannot be described to a policy: %w", t.Name, err)
	}
	return &subject{tool: t, doc: doc, term: ast.NewTerm(v)}, nil
}

// inputOf is the part of the input that changes from call to call; past is nil where
// the policy does not look back. Tool and
// arguments are added where they are needed, in the form needed there.
func inputOf(q *batch.Query, past *InputWindows) Input {
	in := Input{
		Call:    InputCall{ID: q.Call.ID, Operation: q.Call.Operation()},
		Run:     InputRun{ID: q.Run.ID, Principal: q.Run.Principal, Agent: q.Run.Agent, Step: q.Call.Step, Labels: dict(q.Run.Labels)},
		History: InputHistory{Run: dict(q.Run.Counts), Principal: past},
		Now:     stamp(q.Now),
		NowNS:   q.Now.UnixNano(),
	}
	if a := q.Approval; a != nil {
		in.Approval = &InputApproval{
			Kind: a.Kind, Ticket: a.Ticket, By: list(a.By), At: stamp(a.At), Requested: stamp(a.Requested),
		}
	}
	return in
}

// document builds the whole input, as evaluated and as recorded.
func document(q *batch.Query, s *subject, past *InputWindows, arguments ast.Value) (ast.Value, json.RawMessage, error) {
	in := inputOf(q, past)
	rest, err := json.Marshal(struct { // Input without tool
		Call     InputCall      `json:"call"`
		Run      InputRun       `json:"run"`
		History  InputHistory   `json:"history"`
		Approval *InputApproval `json:"approval,omitempty"`
		Now      string         `json:"now"`
		NowNS    int64          `json:"now_ns"`
	}{in.Call, in.Run, in.History, in.Approval, in.Now, in.NowNS})
	if err != nil {
		return nil, nil, err
	}
	record := make(json.RawMessage, 0, len(rest)+len(s.doc)+9)
	record = append(append(append(record, `{"tool":`...), s.doc...), ',')
	record = append(record, rest[1:]...)
	if arguments == nil {
		return nil, record, nil
	}
	v, err := parseJSON(rest)
	if err != nil {
		return nil, nil, err
	}
	obj, ok := v.(ast.Object)
	if !ok {
		return nil, nil, errors.New("the input is no object")
	}
	pairs := [][2]*ast.Term{{ast.InternedTerm("tool"), s.term}}
	obj.Foreach(func(k, v *ast.Term) {
		if call, ok := v.Value.(ast.Object); ok && k.Value.Compare(ast.String("call")) == 0 {
			call.Insert(ast.InternedTerm("arguments"), ast.NewTerm(arguments))
		}
		pairs = append(pairs, [2]*ast.Term{k, v})
	})
	return ast.NewObject(pairs...), record, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func dict[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}
