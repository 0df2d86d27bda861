package standard

import (
	"context"
	"errors"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// PolicyBench says what a policy is asked, and how long. With Stored the questions are
// those of the ledger that Replay selects; without it, a Document and an Operation, a call
// without arguments of each tool in force.
type PolicyBench struct {
	PolicyEval
	Stored bool
	Replay PolicyReplay
	Time   time.Duration // 0: one second
}

// PolicyBenchReport is what decisions cost; see policy.BenchReport.
type PolicyBenchReport = policy.BenchReport

// PolicyCost is what one decision costs.
type PolicyCost = policy.Cost

// BenchPolicy measures what decisions of a policy cost. Nothing is executed, and nothing
// is written.
func BenchPolicy(ctx context.Context, b PolicyBench, o Options) (*PolicyBenchReport, error) {
	c, err := compilePolicy(ctx, b.File, b.Paths, o)
	if err != nil {
		return nil, err
	}
	qs, err := b.ask(ctx, o)
	if err != nil {
		return nil, err
	}
	if b.Time == 0 {
		b.Time = time.Second
	}
	return c.Bench(ctx, qs, b.Time)
}

func (b *PolicyBench) ask(ctx context.Context, o Options) (out []*policy.Question, err error) {
	switch {
	case b.Stored:
		err = withLedger(b.File, o, func(store batch.Store) error {
			return b.Replay.each(ctx, store, nil, func(chunk []replayed) error {
				for _, p := range chunk {
					if p.q != nil {
						out = append(out, p.q)
					}
				}
				return nil
			})
		})
	case b.Document == nil && b.Operation == "":
		var snapshot *plugins.Snapshot
		if snapshot, _, err = LoadTools(ctx, b.File, o); err != nil {
			return nil, err
		}
		for i, t := range snapshot.Tools() {
			query, err := b.Caller.query(t, &batch.RequestedCall{ID: "call", Tool: t.Name, Arguments: []byte("{}")}, i)
			if err != nil {
				return nil, err
			}
			q, err := policy.QuestionAbout(query, t)
			if err != nil {
				return nil, err
			}
			out = append(out, q)
		}
	default:
		var qs []question
		if qs, err = b.questions(ctx, o); err != nil {
			return nil, err
		}
		for _, q := range qs {
			if q.q != nil {
				out = append(out, q.q)
			}
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("there is no call that policy would be asked about")
	}
	return out, err
}
