package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/awaken-agents/awaken-host/batch"
)

func benchOptions(b *testing.B) Options {
	b.Helper()
	raw, err := fs.ReadFile(Starter(), "policy.rego")
	if err != nil {
		b.Fatal(err)
	}
	return options(b, string(raw))
}

func benchQuery() *batch.Query {
	return query("read", `{"path":"notes/today.md","lines":[1,2,3],"options":{"encoding":"utf-8","follow":false}}`)
}

// BenchmarkDecide is one whole decision under the starter policy: arguments read,
// input built, evaluated, answer checked.
func BenchmarkDecide(b *testing.B) {
	g := open(b, benchOptions(b))
	q := benchQuery()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := g.Decide(context.Background(), q); err != nil || d.Outcome != batch.OutcomeAllow {
			b.Fatalf("%+v %v", d, err)
		}
	}
}

// BenchmarkBareOPA is the same policy asked the same through OPA's rego package, as
// a Go program would: the input decoded from JSON, one prepared query.
func BenchmarkBareOPA(b *testing.B) {
	g := open(b, benchOptions(b))
	q := benchQuery()
	doc := benchInput(b, g, q)
	s := g.current.Load()
	b.ReportAllocs()
	for b.Loop() {
		var input any
		if err := util.UnmarshalJSON(doc, &input); err != nil {
			b.Fatal(err)
		}
		rs, err := s.query.Eval(context.Background(), rego.EvalInput(input), rego.EvalTime(q.Now))
		if err != nil || len(rs) != 1 {
			b.Fatalf("%+v %v", rs, err)
		}
	}
}

// BenchmarkBareEvaluation leaves out reading the input too: what OPA alone costs.
func BenchmarkBareEvaluation(b *testing.B) {
	g := open(b, benchOptions(b))
	q := benchQuery()
	v, err := parseJSON(benchInput(b, g, q))
	if err != nil {
		b.Fatal(err)
	}
	s := g.current.Load()
	b.ReportAllocs()
	for b.Loop() {
		rs, err := s.query.Eval(context.Background(), rego.EvalParsedInput(v), rego.EvalTime(q.Now))
		if err != nil || len(rs) != 1 {
			b.Fatalf("%+v %v", rs, err)
		}
	}
}

// BenchmarkOverhead takes turns between Decide and bare OPA, so that a busy machine
// slows both alike, and reports the ratio of their times.
func BenchmarkOverhead(b *testing.B) {
	g := open(b, benchOptions(b))
	q := benchQuery()
	doc := benchInput(b, g, q)
	s := g.current.Load()
	var ours, bare time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := g.Decide(context.Background(), q); err != nil {
			b.Fatal(err)
		}
		turn := time.Now()
		var input any
		if err := util.UnmarshalJSON(doc, &input); err != nil {
			b.Fatal(err)
		}
		if _, err := s.query.Eval(context.Background(), rego.EvalInput(input), rego.EvalTime(q.Now)); err != nil {
			b.Fatal(err)
		}
		ours, bare = ours+turn.Sub(began), bare+time.Since(turn)
	}
	b.ReportMetric(float64(ours)/float64(bare), "decide/bare")
}

// BenchmarkDecideRules shows what many rules cost.
func BenchmarkDecideRules(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var rules strings.Builder
			rules.WriteString(allowAll)
			for i := range n {
				fmt.Fprintf(&rules, "block contains \"rule %d\" if { input.tool.id == \"tool_%d\"; input.call.arguments.path == \"/%d\" }\n", i, i, i)
			}
			g := open(b, options(b, rules.String()))
			q := benchQuery()
			for b.Loop() {
				if d, err := g.Decide(context.Background(), q); err != nil || d.Outcome != batch.OutcomeAllow {
					b.Fatalf("%+v %v", d, err)
				}
			}
		})
	}
}

// benchInput is the input of q as JSON, arguments included.
func benchInput(b *testing.B, g *Gate, q *batch.Query) []byte {
	b.Helper()
	d, err := g.Decide(context.Background(), q)
	if err != nil {
		b.Fatal(err)
	}
	var in map[string]any
	if err := util.UnmarshalJSON(d.Input, &in); err != nil {
		b.Fatal(err)
	}
	in["call"].(map[string]any)["arguments"] = json.RawMessage(q.Call.Arguments)
	doc, err := json.Marshal(in)
	if err != nil {
		b.Fatal(err)
	}
	return doc
}
