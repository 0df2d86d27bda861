package storetest

import (
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestMemory(t *testing.T) {
	Run(t, func(t *testing.T) (batch.Store, func() batch.Store) {
		m := NewMemory()
		return m, func() batch.Store {
			m = m.Reopen()
			return m
		}
	})
}

// A decorator without a plan must not be noticed.
func TestFaultyWithoutFaults(t *testing.T) {
	Run(t, func(t *testing.T) (batch.Store, func() batch.Store) {
		m := NewMemory()
		return NewFaulty(m, nil), func() batch.Store {
			m = m.Reopen()
			return NewFaulty(m, nil)
		}
	})
}

func TestFaulty(t *testing.T) {
	commit := func(s batch.Store, id batch.RunID) error { return s.Commit(ctx, &batch.Commit{Run: newRun(id)}) }
	has := func(s batch.Store, id batch.RunID) bool {
		_, err := s.Run(ctx, id)
		return err == nil
	}
	for _, tt := range []struct {
		name            string
		fault           Fault
		applied, killed bool
	}{
		{"before", FaultBefore, false, false},
		{"after", FaultAfter, true, false},
		{"crash before", FaultCrashBefore, false, true},
		{"crash after", FaultCrashAfter, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMemory()
			f := NewFaulty(m, FailCommit(2, tt.fault))
			if err := commit(f, "a"); err != nil {
				t.Fatal(err)
			}
			if err := commit(f, "b"); !errors.Is(err, ErrInjected) {
				t.Fatalf("second commit: %v", err)
			}
			if has(m, "b") != tt.applied {
				t.Fatalf("applied is %v, want %v", has(m, "b"), tt.applied)
			}
			if err := commit(f, "c"); (err != nil) != tt.killed || f.Crashed() != tt.killed {
				t.Fatalf("third commit: %v, crashed is %v, want %v", err, f.Crashed(), tt.killed)
			}
			if _, err := f.Run(ctx, "a"); errors.Is(err, ErrInjected) != tt.killed {
				t.Fatalf("read: %v", err)
			}
		})
	}
	t.Run("any call", func(t *testing.T) {
		f := NewFaulty(NewMemory(), FailCall(2, FaultBefore))
		if err := commit(f, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Runs(ctx, "", 0); !errors.Is(err, ErrInjected) {
			t.Fatalf("second call: %v", err)
		}
		if _, err := f.Claim(ctx, "a", "b", 9); err != nil {
			t.Fatal(err)
		}
		if all, commits := f.Calls(); all != 3 || commits != 2 {
			t.Fatalf("%d calls, %d of them changing; want 3 and 2", all, commits)
		}
	})
	t.Run("by predicate", func(t *testing.T) {
		f := NewFaulty(NewMemory(), FailWhen(func(c *batch.Commit) bool { return c.Run.ID == "b" }, FaultBefore))
		if commit(f, "a") != nil || !errors.Is(commit(f, "b"), ErrInjected) || commit(f, "c") != nil {
			t.Fatal("the predicate did not choose run b alone")
		}
	})
}

func TestClone(t *testing.T) {
	c := &batch.Commit{Run: newRun("a"), Batch: newBatch("a", 1, 1), Decisions: []*batch.DecisionRecord{newDecision("a", 1, 0, 1)}}
	d := clone(c)
	c.Run.Labels["team"], c.Batch.Calls[0].Call.Arguments[0], c.Decisions[0].Grant.MemoryMiB = "x", 'X', 99
	if d.Run.Labels["team"] == "x" || d.Batch.Calls[0].Call.Arguments[0] == 'X' || d.Decisions[0].Grant.MemoryMiB == 99 {
		t.Fatal("the copy shares memory")
	}
	if d.Decisions[0].Grant.Hosts == nil || d.Decisions[0].Grant.Paths != nil {
		t.Fatal("nil and empty were mixed up")
	}
}
