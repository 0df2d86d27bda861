package batch_test

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// Every reason code of the engine is what some call gets, and every call leaves one
// record for each time that it was decided about.
func TestEveryReasonIsGiven(t *testing.T) {
	nobodyAsks := func(t *testing.T, w *world) {
		w.gate = func(*batch.Query) (*batch.Decision, error) {
			t.Error("the gate is asked")
			return allow(), nil
		}
	}
	given := map[string]func(*testing.T, *world) int{ // makes run r and says how many records it has
		batch.ReasonUnknownTool: func(t *testing.T, w *world) int {
			nobodyAsks(t, w)
			w.submit(w.engine(), "r", "nothing")
			return 1
		},
		batch.ReasonInvalidArguments: func(t *testing.T, w *world) int {
			nobodyAsks(t, w)
			w.tools["echo"].badArgs = "bad"
			w.submit(w.engine(), "r", `echo {"bad":1}`)
			return 1
		},
		batch.ReasonToolChanged: func(t *testing.T, w *world) int {
			w.gate = func(*batch.Query) (*batch.Decision, error) {
				return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{Prompt: "?"}}, nil
			}
			e := w.engine()
			w.submit(e, "r", "echo")
			w.tools["echo"].d.Digest = "another"
			if _, err := e.Decide(t.Context(), w.ticket().ID, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
				t.Fatal(err)
			}
			return 2
		},
		batch.ReasonGateFailed: func(t *testing.T, w *world) int {
			w.gate = func(*batch.Query) (*batch.Decision, error) { return nil, errors.New("broken") }
			w.submit(w.engine(), "r", "echo")
			return 1
		},
		batch.ReasonOddShape: func(t *testing.T, w *world) int {
			w.gate = func(*batch.Query) (*batch.Decision, error) { return &batch.Decision{Outcome: "sure"}, nil }
			w.submit(w.engine(), "r", "echo")
			return 1
		},
		batch.ReasonAskedAgain: func(t *testing.T, w *world) int {
			w.gate = func(*batch.Query) (*batch.Decision, error) {
				return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{Prompt: "?"}}, nil
			}
			e := w.engine()
			w.submit(e, "r", "echo")
			if _, err := e.Decide(t.Context(), w.ticket().ID, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
				t.Fatal(err)
			}
			return 2
		},
	}
	src, err := os.ReadFile("drive.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tReason\w+\s*= "(\w+)"`).FindAllStringSubmatch(string(src), -1)
	if len(codes) < 6 {
		t.Fatalf("found %v", codes)
	}
	for _, m := range codes {
		t.Run(m[1], func(t *testing.T) {
			give := given[m[1]]
			if give == nil {
				t.Fatal("no call gets it; write one")
			}
			w := newWorld(t)
			want := give(t, w)
			ds, err := w.store.Decisions(t.Context(), "r")
			if err != nil || len(ds) != want {
				t.Fatalf("%d records, %v; want %d", len(ds), err, want)
			}
			last := ds[want-1]
			if last.Outcome != batch.OutcomeBlock || last.Reasons[0].Code != m[1] || last.Seq != want {
				t.Errorf("recorded %+v", last)
			}
			if len(w.order) > 0 {
				t.Errorf("%v ran", w.order)
			}
		})
	}
}
