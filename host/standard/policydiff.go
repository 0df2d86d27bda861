package standard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/policy"
)

// PolicyDiff says which decisions of the ledger are made again, and by which
// policies.
type PolicyDiff struct {
	File string // the host file
	// Old and New are paths of policies; empty: the one that File names. With Recorded
	// the old answers are those that were given then.
	Old, New []string
	Recorded bool

	Replay PolicyReplay

	// Change hears of each decision that differs, in the order they are replayed; an
	// error of it ends the replay. Progress hears how many of how many runs are done.
	Change   func(PolicyChange) error
	Progress func(done, of int)
}

// PolicyChange is a decision that would be another one.
type PolicyChange struct {
	Operation batch.OperationID `json:"operation"`
	Seq       int               `json:"seq"` // 1: the first decision on the call
	Time      time.Time         `json:"time"`
	Tool      ToolID            `json:"tool"`
	Principal string            `json:"principal,omitempty"`
	What      policy.Difference `json:"what"` // outcome, terms or reasons
	Old       *policy.Answer    `json:"old"`
	New       *policy.Answer    `json:"new"`
}

// PolicyDiffReport counts what came of a replay.
type PolicyDiffReport struct {
	Old      string `json:"old"` // revision, or "recorded"
	New      string `json:"new"`
	Replayed int    `json:"replayed"`
	Changed  int    `json:"changed"`      // another outcome, or other terms
	Reasons  int    `json:"reasons_only"` // the same in effect, with other reasons
	NotAsked int    `json:"not_asked"`    // refused before policy was asked
	// Unknown counts decisions that cannot be made again: the policy looks at
	// input.history.principal, which was not recorded.
	Unknown     int                `json:"unknown"`
	Transitions []PolicyTransition `json:"transitions"`
}

// PolicyTransition counts the changes from one outcome to another; the same twice:
// other terms.
type PolicyTransition struct {
	Old   batch.Outcome `json:"old"`
	New   batch.Outcome `json:"new"`
	Count int           `json:"count"`
}

// Differences between answers.
const (
	DifferentOutcome = policy.DifferentOutcome
	DifferentTerms   = policy.DifferentTerms
	DifferentReasons = policy.DifferentReasons
)

// DiffPolicies puts the questions that the ledger keeps to two policies. Nothing is
// executed, and nothing is written. Memory is bounded by the largest run.
func DiffPolicies(ctx context.Context, d PolicyDiff, o Options) (*PolicyDiffReport, error) {
	next, err := compilePolicy(ctx, d.File, d.New, o)
	if err != nil {
		return nil, err
	}
	r := &PolicyDiffReport{Old: "recorded", New: next.Revision(), Transitions: []PolicyTransition{}}
	var old *policy.Candidate
	if !d.Recorded {
		if old, err = compilePolicy(ctx, d.File, d.Old, o); err != nil {
			return nil, err
		}
		r.Old = old.Revision()
	}
	counts := map[[2]batch.Outcome]int{}
	err = withLedger(d.File, o, func(store batch.Store) error {
		return d.Replay.each(ctx, store, d.Progress, func(chunk []replayed) error {
			changes, err := inParallel(ctx, chunk, func(ctx context.Context, p *replayed) (PolicyChange, error) {
				return p.compare(ctx, old, next)
			})
			if err != nil {
				return err
			}
			for i := range changes {
				if err := r.count(&chunk[i], &changes[i], counts, d.Change); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for k, n := range counts {
		r.Transitions = append(r.Transitions, PolicyTransition{k[0], k[1], n})
	}
	slices.SortFunc(r.Transitions, func(a, b PolicyTransition) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(string(a.Old), string(b.Old)), strings.Compare(string(a.New), string(b.New)))
	})
	return r, err
}

func (r *PolicyDiffReport) count(p *replayed, c *PolicyChange, counts map[[2]batch.Outcome]int, tell func(PolicyChange) error) error {
	switch {
	case p.q == nil:
		r.NotAsked++
		return nil
	case c.New == nil:
		r.Unknown++
		return nil
	}
	r.Replayed++
	switch c.What {
	case policy.NoDifference:
		return nil
	case policy.DifferentReasons:
		r.Reasons++
	default:
		r.Changed++
		counts[[2]batch.Outcome{c.Old.Outcome, c.New.Outcome}]++
	}
	if tell == nil {
		return nil
	}
	return tell(*c)
}

// compare asks both policies; the change has no answers when one of them looks at
// what is not known.
func (p *replayed) compare(ctx context.Context, old, next *policy.Candidate) (PolicyChange, error) {
	d := p.record
	c := PolicyChange{Operation: d.Operation, Seq: d.Seq, Time: d.Time, Tool: d.Tool, Principal: d.Principal}
	if p.q == nil || !next.Knows(p.q) || old != nil && !old.Knows(p.q) {
		return c, nil
	}
	var err error
	if c.New, err = next.Decide(ctx, p.q); err != nil {
		return c, err
	}
	if old == nil {
		c.Old = &policy.Answer{Outcome: d.Outcome, Reasons: d.Reasons, Grant: d.Grant}
		c.What = policy.CompareRecord(d, c.New)
		return c, nil
	}
	if c.Old, err = old.Decide(ctx, p.q); err != nil {
		return c, err
	}
	c.What = policy.Compare(c.Old, c.New)
	return c, nil
}
