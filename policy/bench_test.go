package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/awaken-agents/awaken-host/batch"
)

func benchQuery() *batch.Query {
	return query("read", `{"path":"notes/today.md","lines":[1,2,3],"options":{"encoding":"utf-8","follow":false}}`)
}

// benchPolicies are what decisions are measured under: the starter policy, and it with
// many rules beside that look a value up or match the beginning of one: see strict.go.
func benchPolicies(b *testing.B) map[string]string {
	b.Helper()
	raw, err := fs.ReadFile(Starter(), "policy.rego")
	if err != nil {
		b.Fatal(err)
	}
	policies := map[string]string{"starter": string(raw)}
	for _, n := range []int{100, 1000} {
		var rules, patterns strings.Builder
		rules.Write(raw)
		patterns.Write(raw)
		for i := range n {
			fmt.Fprintf(&rules, "\nblock contains \"rule %d\" if {\n\tinput.tool.id == \"tool_%d\"\n\tinput.call.arguments.path == \"/%d\"\n}\n", i, i, i)
			fmt.Fprintf(&patterns, "\nblock contains \"pattern %d\" if {\n\tstartswith(input.call.arguments.path, \"secret-%d/\")\n}\n", i, i)
		}
		policies[fmt.Sprintf("rules=%d", n)] = rules.String()
		policies[fmt.Sprintf("patterns=%d", n)] = patterns.String()
	}
	return policies
}

// forEachPolicy runs one benchmark for each policy, the smallest first.
func forEachPolicy(b *testing.B, run func(*testing.B, Options)) {
	policies := benchPolicies(b)
	names := slices.SortedFunc(func(yield func(string) bool) {
		for n := range policies {
			if !yield(n) {
				return
			}
		}
	}, func(x, y string) int { return len(policies[x]) - len(policies[y]) })
	for _, n := range names {
		b.Run(n, func(b *testing.B) { run(b, options(b, policies[n])) })
	}
}

// BenchmarkDecide is one whole decision: arguments read, input built, evaluated, answer
// checked.
func BenchmarkDecide(b *testing.B) {
	forEachPolicy(b, func(b *testing.B, o Options) {
		g := open(b, o)
		q := benchQuery()
		b.ReportAllocs()
		for b.Loop() {
			if d, err := g.Decide(context.Background(), q); err != nil || d.Outcome != batch.OutcomeAllow {
				b.Fatalf("%+v %v", d, err)
			}
		}
	})
}

// BenchmarkBareOPA is the same policy asked the same through OPA's rego package, as a Go
// program would that knows nothing of a host: compiled by rego, the input decoded from
// JSON, one prepared query.
func BenchmarkBareOPA(b *testing.B) {
	forEachPolicy(b, func(b *testing.B, o Options) {
		bare, doc, now := bareOPA(b, o)
		b.ReportAllocs()
		for b.Loop() {
			askBare(b, bare, doc, now)
		}
	})
}

// BenchmarkOverhead takes turns between Decide and bare OPA, so that a busy machine slows
// both alike, and reports the ratio of their medians.
func BenchmarkOverhead(b *testing.B) {
	forEachPolicy(b, func(b *testing.B, o Options) {
		bare, doc, now := bareOPA(b, o)
		g := open(b, o)
		q := benchQuery()
		var ours, theirs []time.Duration
		for b.Loop() {
			began := time.Now()
			if _, err := g.Decide(context.Background(), q); err != nil {
				b.Fatal(err)
			}
			turn := time.Now()
			askBare(b, bare, doc, now)
			ours, theirs = append(ours, turn.Sub(began)), append(theirs, time.Since(turn))
		}
		a, c := cost(ours), cost(theirs)
		b.ReportMetric(float64(a.P50)/float64(c.P50), "decide/bare")
		b.ReportMetric(float64(a.P50), "decide-p50-ns")
		b.ReportMetric(float64(c.P50), "bare-p50-ns")
		b.ReportMetric(0, "ns/op") // of both together, which says nothing
	})
}

// bareOPA is the policy for plain OPA, with the benchmark's input as JSON.
func bareOPA(b *testing.B, o Options) (rego.PreparedEvalQuery, []byte, time.Time) {
	b.Helper()
	q := benchQuery()
	g := open(b, o)
	bare, err := g.current.Load().bare(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	d, err := g.Decide(context.Background(), q)
	if err != nil {
		b.Fatal(err)
	}
	asked, err := RecordedQuestion(d.Input, json.RawMessage(q.Call.Arguments))
	if err != nil {
		b.Fatal(err)
	}
	doc, err := asked.Document()
	if err != nil {
		b.Fatal(err)
	}
	return bare, doc, q.Now
}

func askBare(b *testing.B, bare rego.PreparedEvalQuery, doc []byte, now time.Time) {
	var input any
	if err := util.UnmarshalJSON(doc, &input); err != nil {
		b.Fatal(err)
	}
	rs, err := bare.Eval(context.Background(), rego.EvalInput(input), rego.EvalTime(now))
	if err != nil || len(rs) != 1 || rs[0].Expressions[0].Value.(map[string]any)["outcome"] != "allow" {
		b.Fatalf("%+v %v", rs, err)
	}
}
