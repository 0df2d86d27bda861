package policy

import (
	"reflect"

	"github.com/awaken-agents/awaken-host/batch"
)

// Difference is how far two answers to one question differ.
type Difference string

// The differences, the farthest first.
const (
	DifferentOutcome Difference = "outcome"
	DifferentTerms   Difference = "terms"   // the same outcome with another grant, question, result or time
	DifferentReasons Difference = "reasons" // the same in effect, with other words
	NoDifference     Difference = ""
)

// Compare tells how a differs from b.
func Compare(a, b *Answer) Difference {
	switch {
	case a.Outcome != b.Outcome:
		return DifferentOutcome
	case !sameGrant(a.Grant, b.Grant), !reflect.DeepEqual(a.Confirmation, b.Confirmation), !sameResult(a.Result, b.Result), !a.At.Equal(b.At):
		return DifferentTerms
	}
	return compareReasons(a.Reasons, b.Reasons)
}

// CompareRecord tells how an answer differs from a decision of the ledger, which
// keeps the outcome, the grant and the reasons of what policy said.
func CompareRecord(r *batch.DecisionRecord, a *Answer) Difference {
	switch {
	case r.Outcome != a.Outcome:
		return DifferentOutcome
	case !sameGrant(r.Grant, a.Grant):
		return DifferentTerms
	}
	return compareReasons(r.Reasons, a.Reasons)
}

func compareReasons(a, b []batch.Reason) Difference {
	if len(a) != len(b) {
		return DifferentReasons
	}
	for i := range a {
		// Details tell of files and lines, which move.
		if a[i].Code != b[i].Code || a[i].Message != b[i].Message {
			return DifferentReasons
		}
	}
	return NoDifference
}

// sameGrant holds absent and empty apart: an empty list allows nothing.
func sameGrant(a, b *batch.Grant) bool { return reflect.DeepEqual(a, b) }

func sameResult(a, b *Result) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.IsError != b.IsError || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		x, errX := a.Content[i].MarshalJSON()
		y, errY := b.Content[i].MarshalJSON()
		if errX != nil || errY != nil || string(x) != string(y) {
			return false
		}
	}
	return true
}

// Knows reports whether the question has all that the policy looks at: what a
// principal called before is recorded only where the policy in force looked at it.
func (c *Candidate) Knows(q *Question) bool {
	if !c.s.looksBack {
		return true
	}
	history := asObject(valueAt(q.input, "history"))
	return history != nil && valueAt(history, "principal") != nil
}
