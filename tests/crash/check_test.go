package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

// TestCheckerSees: the checker of the sweep reports what it is there for, when a
// history is changed by hand.
func TestCheckerSees(t *testing.T) {
	config, dir := newStage(t, "")
	w := newWorld(config, filepath.Join(dir, "world"))
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if e, violations, err := w.live(aim{}, 0); err != nil || e.killed || len(violations) > 0 {
		t.Fatalf("%+v, %v, %v", e, violations, err)
	}
	journal, err := readLines[entry](filepath.Join(w.dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	effects, err := readLines[happened](filepath.Join(w.dir, effectsName))
	if err != nil {
		t.Fatal(err)
	}
	// Runs are under way side by side, and not every call lives to answer: the first
	// effect is to be one whose call did.
	answered := func(e happened) bool { return e.Run == "brain" }
	if i := slices.IndexFunc(effects, answered); i > 0 {
		effects[0], effects[i] = effects[i], effects[0]
	}
	l, c, err := standard.OpenLedger(context.Background(), config, standard.Options{DataDir: filepath.Join(w.dir, dataName)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	read := func() *history {
		h, err := readHistory(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for want, change := range map[string]func(*history, *[]happened){
		"":                           func(*history, *[]happened) {},
		"had its effect twice":       func(_ *history, e *[]happened) { *e = append(*e, (*e)[0]) },
		"which is not committed":     func(_ *history, e *[]happened) { (*e)[0].Attempt = 7 },
		"an effect names":            func(_ *history, e *[]happened) { (*e)[0].Tool = toolClient },
		"effects were in []":         func(_ *history, e *[]happened) { *e = (*e)[1:] },
		"was acknowledged in life 1": func(h *history, _ *[]happened) { h.events["brain"] = h.events["brain"][:3] },
		"has seq":                    func(h *history, _ *[]happened) { h.events["brain"][2].Seq++ },
		"state is": func(h *history, _ *[]happened) {
			h.runs["brain"].State["effect/total"] = json.RawMessage("1")
		},
		"was published 0 times": func(h *history, _ *[]happened) {
			h.events["client"] = h.events["client"][:len(h.events["client"])-1]
		},
		"came to an end 2 times": func(h *history, _ *[]happened) { dropAndRepeat(h, batch.EventCallCompleted) },
		"was decided 2 times":    func(h *history, _ *[]happened) { dropAndRepeat(h, batch.EventTicketDecided) },
		"is gone": func(h *history, _ *[]happened) {
			for id := range h.tickets {
				delete(h.tickets, id)
				return
			}
		},
		"nobody asked for": func(h *history, _ *[]happened) {
			v := *h.runs["brain"]
			v.Run = "x"
			v.Batches = renamed(v.Batches)
			h.runs["x"] = &v
		},
		"is not there":         func(h *history, _ *[]happened) { delete(h.runs, "steps") },
		"was handed out as":    func(h *history, _ *[]happened) { h.answers["brain/1"] = "{}" },
		"no life ended while":  func(h *history, _ *[]happened) { h.runs["brain"].Batches[0].Calls[0].Phase = batch.PhaseIndeterminate },
		"was answered as tool": func(h *history, _ *[]happened) { h.runs["policy"].Batches[0].Calls[0].Answer = batch.AnswerTool },
		"is now":               func(h *history, _ *[]happened) { h.runs["brain"].Batches[0].Calls[2].Attempt++ },
		"before ticket": func(h *history, _ *[]happened) {
			evs := h.events["policy"]
			for i := range evs {
				if evs[i].Kind == batch.EventTicketDecided && evs[i+1].Kind == batch.EventCallExecuting {
					evs[i].Event, evs[i+1].Event = evs[i+1].Event, evs[i].Event
				}
			}
		},
	} {
		check := newChecker(scene())
		if found := check.look(read(), journal, effects, true); len(found) > 0 {
			t.Fatal(found)
		}
		h, e := read(), append([]happened(nil), effects...)
		change(h, &e)
		found := strings.Join(check.look(h, journal, e, true), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("want %q in:\n%s", want, found)
		}
	}
}

// dropAndRepeat repeats an event of the kind in place of the one that follows.
func dropAndRepeat(h *history, kind batch.EventKind) {
	evs := h.events["policy"]
	for i := range evs {
		if evs[i].Kind == kind {
			seq := evs[i+1].Seq
			evs[i+1] = evs[i]
			evs[i+1].Seq = seq
			return
		}
	}
}

func renamed(bs []host.BatchView) []host.BatchView {
	bs = append([]host.BatchView(nil), bs...)
	bs[0].Calls = append([]host.CallView(nil), bs[0].Calls...)
	for i := range bs[0].Calls {
		bs[0].Calls[i].Operation = batch.NewOperationID("x", 1, i)
	}
	return bs
}
