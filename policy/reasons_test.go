package policy

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Every reason code of the gate is what some question gets.
func TestEveryReasonIsGiven(t *testing.T) {
	gate := func(rego string, change func(*Options)) *Gate {
		o := options(t, rego)
		if change != nil {
			change(&o)
		}
		return open(t, o)
	}
	ask := func(g *Gate, q *batch.Query) *batch.Decision { return decide(t, g, q) }
	came := func(tool, args string, kind batch.TicketKind, by ...string) *batch.Query {
		q := query(tool, args)
		q.Approval = approval(kind, by...)
		return q
	}
	const confirm = `require_confirmation contains {"approvers": ["alice", "bob"], "quorum": 2}`
	given := map[string]func() *batch.Decision{
		"ReasonNoRule": func() *batch.Decision { return ask(gate(`allow if input.tool.id == "x"`, nil), query("read", `{}`)) },
		"ReasonUndefined": func() *batch.Decision {
			o := options(t, allowAll)
			g := open(t, o)
			s, err := compile(t.Context(), &o, []source{{file: "base", name: "base.rego", raw: []byte("package awaken.gate\nother := 1")}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.current.Store(s)
			return ask(g, query("read", `{}`))
		},
		"ReasonEvalError": func() *batch.Decision {
			return ask(gate(`allow if to_number(input.call.arguments.a) > 1`, nil), query("read", `{"a":"x"}`))
		},
		"ReasonConflict": func() *batch.Decision {
			return ask(gate("a := 1\na := 2 if input.tool.id\nallow if a == 1", nil), query("read", `{}`))
		},
		"ReasonTimeout": func() *batch.Decision {
			return ask(gate(`allow if count(numbers.range(1, 2000000000)) > 0`, func(o *Options) { o.Deadline = 20 * time.Millisecond }), query("read", `{}`))
		},
		"ReasonOddShape": func() *batch.Decision {
			return ask(gate(`allow contains input.call.arguments.a`, nil), query("read", `{"a":5}`))
		},
		"ReasonNoApprover": func() *batch.Decision { return ask(gate(confirm, nil), query("read", `{}`)) },
		"ReasonApprovalWeak": func() *batch.Decision {
			return ask(gate(confirm, nil), came("read", `{}`, batch.TicketPermission, "bob"))
		},
		"ReasonConfirmMissing": func() *batch.Decision {
			return ask(gate(`require_confirmation contains "?"`, nil), came("read", `{}`, batch.TicketSchedule))
		},
		"ReasonUnknownTool": func() *batch.Decision { return ask(gate(allowAll, nil), query("nothing", `{}`)) },
		"ReasonToolChanged": func() *batch.Decision {
			q := query("read", `{}`)
			q.Tool.Digest = "another"
			return ask(gate(allowAll, nil), q)
		},
		"ReasonInvalidArguments": func() *batch.Decision { return ask(gate(allowAll, nil), query("read", `[]`)) },
		"ReasonArgumentsLarge": func() *batch.Decision {
			return ask(gate(allowAll, func(o *Options) { o.MaxArgumentBytes = 3 }), query("read", `{"a":1}`))
		},
		"ReasonInvalidInput": func() *batch.Decision { return ask(gate(allowAll, nil), nil) },
		"ReasonNoHistory": func() *batch.Decision {
			q := query("read", `{}`)
			q.Recent = func(context.Context, ...time.Duration) ([]map[batch.ToolID]int, error) {
				return nil, errors.New("no disk")
			}
			return ask(gate(`allow if input.history.principal["1h"].x < 1`, nil), q)
		},
		"ReasonApproved": func() *batch.Decision {
			return ask(gate(`require_confirmation contains "?"`, nil), came("read", `{}`, batch.TicketPermission, "bob"))
		},
		"ReasonScheduleDue": func() *batch.Decision {
			return ask(gate(`schedule contains {"after": "1h"}`, nil), came("read", `{}`, batch.TicketSchedule))
		},
		"ReasonGrantNarrowed": func() *batch.Decision {
			return ask(gate(allowAll+`grant contains {"commands": ["rm"]}`, nil), query("read", `{}`))
		},
	}
	allows := map[string]bool{"ReasonApproved": true, "ReasonScheduleDue": true, "ReasonGrantNarrowed": true}
	for name, code := range reasonCodes(t, "decision.go") {
		t.Run(name, func(t *testing.T) {
			give := given[name]
			if give == nil {
				t.Fatal("no question gets it; write one")
			}
			d := give()
			if !strings.Contains(" "+codes(d)+" ", " "+code+" ") {
				t.Errorf("got %s with %+v, want %s", d.Outcome, d.Reasons, code)
			}
			want := batch.OutcomeBlock
			if allows[name] {
				want = batch.OutcomeAllow
			}
			if d.Outcome != want {
				t.Errorf("%s goes with %s, want %s", code, d.Outcome, want)
			}
		})
	}
}

// reasonCodes reads the Reason constants of a file of this package, with those of
// package batch that they stand for.
func reasonCodes(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{
		"ReasonOddShape": batch.ReasonOddShape, "ReasonUnknownTool": batch.ReasonUnknownTool,
		"ReasonToolChanged": batch.ReasonToolChanged, "ReasonInvalidArguments": batch.ReasonInvalidArguments,
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
			return true
		}
		name := spec.Names[0].Name
		switch v := spec.Values[0].(type) {
		case *ast.BasicLit:
			out[name] = strings.Trim(v.Value, `"`)
		case *ast.SelectorExpr:
			out[name] = theirs[v.Sel.Name]
		}
		if out[name] == "" {
			t.Errorf("%s: its code cannot be told", name)
		}
		return true
	})
	if len(out) < 15 {
		t.Fatalf("found %v", out)
	}
	return out
}
