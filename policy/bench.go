package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// BenchReport is what decisions cost, against OPA's rego package used directly: the
// same modules, prepared once, and the same inputs, both from JSON to an answer.
type BenchReport struct {
	Revision  string  `json:"revision"`
	Questions int     `json:"questions"` // distinct inputs, asked in turn
	Gate      Cost    `json:"gate"`      // read strictly, evaluated, answer checked
	Bare      Cost    `json:"rego"`
	Ratio     float64 `json:"ratio"` // of the medians, gate to rego
}

// Cost is what one decision costs.
type Cost struct {
	N      int           `json:"n"` // decisions made
	Mean   time.Duration `json:"mean_ns"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	Allocs int64         `json:"allocs"` // per decision
	Bytes  int64         `json:"bytes"`  // allocated per decision
}

// maxBenchSamples bounds what is kept of times.
const maxBenchSamples = 1 << 20

// Bench puts questions to the policy and to plain OPA for a while, in turns, so that a
// busy machine slows both alike. The error is that of ctx, or says that plain OPA
// cannot be asked.
func (c *Candidate) Bench(ctx context.Context, qs []*Question, d time.Duration) (*BenchReport, error) {
	if len(qs) == 0 {
		return nil, errors.New("policy: there is nothing to ask")
	}
	b := &bench{c: c}
	for _, q := range qs {
		doc, err := q.Document()
		if err != nil {
			return nil, err
		}
		b.docs = append(b.docs, doc)
		b.asked = append(b.asked, &batch.Query{Call: &batch.Call{}, Run: &batch.Run{}, Now: q.now})
		b.subjects = append(b.subjects, &subject{tool: &plugins.Tool{Plugin: &plugins.Plugin{Effective: q.effective}}})
	}
	var err error
	if b.bare, err = c.s.bare(ctx); err != nil {
		return nil, fmt.Errorf("policy: plain OPA does not take this policy: %w", err)
	}
	for i := range b.docs { // caches fill, and what fails does so before it is measured
		if err := b.byGate(ctx, i); err != nil {
			return nil, err
		}
		if err := b.byRego(ctx, i); err != nil {
			return nil, err
		}
	}
	return b.measure(ctx, d)
}

type bench struct {
	c        *Candidate
	bare     rego.PreparedEvalQuery
	docs     []json.RawMessage
	asked    []*batch.Query
	subjects []*subject
}

// bare is the policy as a Go program would ask it that knows nothing of a host.
func (s *set) bare(ctx context.Context) (rego.PreparedEvalQuery, error) {
	options := []func(*rego.Rego){rego.Query(entryPoint), rego.Store(s.store), rego.SetRegoVersion(ast.RegoV1)}
	for _, part := range []map[string]*ast.Module{s.base, s.modules} {
		for _, m := range part {
			options = append(options, rego.ParsedModule(m))
		}
	}
	return rego.New(options...).PrepareForEval(ctx)
}

func (b *bench) byGate(ctx context.Context, i int) error {
	input, err := parseJSON(b.docs[i])
	if err != nil {
		return err
	}
	// A policy that fails costs what it costs.
	_, _ = b.c.g.evaluate(ctx, b.c.s, b.asked[i], b.subjects[i], input)
	return ctx.Err()
}

func (b *bench) byRego(ctx context.Context, i int) error {
	var input any
	if err := util.UnmarshalJSON(b.docs[i], &input); err != nil {
		return err
	}
	_, _ = b.bare.Eval(ctx, rego.EvalInput(input), rego.EvalTime(b.asked[i].Now))
	return ctx.Err()
}

func (b *bench) measure(ctx context.Context, d time.Duration) (*BenchReport, error) {
	var gate, bare []time.Duration
	for until, i := time.Now().Add(d), 0; len(gate) < maxBenchSamples; i = (i + 1) % len(b.docs) {
		began := time.Now()
		if began.After(until) && len(gate) >= len(b.docs) {
			break
		}
		if err := b.byGate(ctx, i); err != nil {
			return nil, err
		}
		turn := time.Now()
		if err := b.byRego(ctx, i); err != nil {
			return nil, err
		}
		gate, bare = append(gate, turn.Sub(began)), append(bare, time.Since(turn))
	}
	r := &BenchReport{Revision: b.c.Revision(), Questions: len(b.docs), Gate: cost(gate), Bare: cost(bare)}
	r.Ratio = float64(r.Gate.P50) / float64(r.Bare.P50)
	var err error
	if r.Gate.Allocs, r.Gate.Bytes, err = b.allocations(ctx, b.byGate); err != nil {
		return nil, err
	}
	r.Bare.Allocs, r.Bare.Bytes, err = b.allocations(ctx, b.byRego)
	return r, err
}

func cost(times []time.Duration) Cost {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	slices.Sort(times)
	n := len(times)
	return Cost{N: n, Mean: sum / time.Duration(n), P50: times[n/2], P99: times[min(n-1, n*99/100)]}
}

// allocations counts for at least a hundred decisions what the whole process
// allocates, which is idle otherwise.
func (b *bench) allocations(ctx context.Context, ask func(context.Context, int) error) (count, bytes int64, err error) {
	n := max(100, len(b.docs))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		if err := ask(ctx, i%len(b.docs)); err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	each := func(total uint64) int64 { return int64(float64(total) / float64(n)) }
	return each(after.Mallocs - before.Mallocs), each(after.TotalAlloc - before.TotalAlloc), nil
}
