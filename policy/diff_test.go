package policy

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestCompare(t *testing.T) {
	base := func() *Answer {
		return &Answer{
			Outcome: batch.OutcomeAllow, Reasons: []batch.Reason{{Code: "allow", Message: "m", Detail: "a.rego:1"}},
			Grant: &batch.Grant{Hosts: []string{"h"}}, Confirmation: &Confirmation{Prompt: "p", Quorum: 1},
			Result: &Result{Content: []batch.ContentBlock{{Type: batch.BlockText, Text: "t"}}}, At: testNow,
		}
	}
	for name, c := range map[string]struct {
		change func(*Answer)
		want   Difference
	}{
		"nothing":           {func(*Answer) {}, NoDifference},
		"detail":            {func(a *Answer) { a.Reasons[0].Detail = "b.rego:9" }, NoDifference},
		"time zone":         {func(a *Answer) { a.At = a.At.In(time.FixedZone("x", 3600)) }, NoDifference},
		"message":           {func(a *Answer) { a.Reasons[0].Message = "n" }, DifferentReasons},
		"code":              {func(a *Answer) { a.Reasons[0].Code = "n" }, DifferentReasons},
		"one reason more":   {func(a *Answer) { a.Reasons = append(a.Reasons, batch.Reason{Code: "x"}) }, DifferentReasons},
		"outcome":           {func(a *Answer) { a.Outcome = batch.OutcomeBlock }, DifferentOutcome},
		"outcome and terms": {func(a *Answer) { a.Outcome, a.Grant = batch.OutcomeBlock, nil }, DifferentOutcome},
		"no grant":          {func(a *Answer) { a.Grant = nil }, DifferentTerms},
		"an empty list":     {func(a *Answer) { a.Grant.Hosts = []string{} }, DifferentTerms},
		"no list":           {func(a *Answer) { a.Grant.Hosts = nil }, DifferentTerms},
		"quorum":            {func(a *Answer) { a.Confirmation.Quorum = 2 }, DifferentTerms},
		"no question":       {func(a *Answer) { a.Confirmation = nil }, DifferentTerms},
		"result":            {func(a *Answer) { a.Result.Content[0].Text = "u" }, DifferentTerms},
		"result fails":      {func(a *Answer) { a.Result.IsError = true }, DifferentTerms},
		"no result":         {func(a *Answer) { a.Result = nil }, DifferentTerms},
		"later":             {func(a *Answer) { a.At = a.At.Add(1) }, DifferentTerms},
	} {
		b := base()
		c.change(b)
		if got, back := Compare(base(), b), Compare(b, base()); got != c.want || back != c.want {
			t.Errorf("%s: %q, and %q back, want %q", name, got, back, c.want)
		}
	}
}

func TestCompareRecord(t *testing.T) {
	r := &batch.DecisionRecord{Outcome: batch.OutcomeRequireConfirmation, Reasons: []batch.Reason{{Code: "c"}}}
	a := &Answer{Outcome: r.Outcome, Reasons: r.Reasons, Confirmation: &Confirmation{Prompt: "p", Quorum: 3}}
	if d := CompareRecord(r, a); d != NoDifference {
		t.Errorf("what the ledger does not keep makes a difference: %q", d)
	}
	r.Grant = &batch.Grant{MemoryMiB: 5}
	if d := CompareRecord(r, a); d != DifferentTerms {
		t.Errorf("another grant: %q", d)
	}
}

// TestKnows: a policy that looks at what was not recorded cannot be asked again.
func TestKnows(t *testing.T) {
	looks := candidate(t, options(t, "allow contains \"a\" if input.history.principal[\"1h\"].notes__save < 5\n"))
	plain := candidate(t, options(t, allowAll))
	without, err := ReadQuestion(json.RawMessage(`{"history":{"run":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	with, err := ReadQuestion(json.RawMessage(`{"history":{"run":{},"principal":{"1h":{"notes__save":1}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if looks.Knows(without) || !looks.Knows(with) || !plain.Knows(without) || !plain.Knows(with) {
		t.Error("knows what it does not, or the other way round")
	}
	if a, err := looks.Decide(context.Background(), with); err != nil || a.Outcome != batch.OutcomeAllow {
		t.Errorf("%+v, %v", a, err)
	}
}
