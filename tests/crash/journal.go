package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/awaken-agents/awaken-host/batch"
)

// entry is a line of the journal: something a life was told and must find again.
// One field besides Life is set.
type entry struct {
	Life      int        `json:"life"`
	Stage     stage      `json:"stage,omitempty"`     // how far the life is
	Commit    *commit    `json:"commit,omitempty"`    // a commit that was acknowledged
	Strike    string     `json:"strike,omitempty"`    // where the life is about to kill itself
	Decided   *decided   `json:"decided,omitempty"`   // a decision that was accepted
	Published *published `json:"published,omitempty"` // a result that was handed out
}

type commit struct {
	Run    batch.RunID   `json:"run"`
	Events []batch.Event `json:"events"`
}

type decided struct {
	Ticket batch.TicketID     `json:"ticket"`
	Status batch.TicketStatus `json:"status"`
}

type published struct {
	Run    batch.RunID `json:"run"`
	Step   int         `json:"step"`
	Answer string      `json:"answer"`
}

// stage is how far a life has come.
type stage string

const (
	stageOpening    stage = "opening"
	stageRecovering stage = "recovering"
	stageRunning    stage = "running"
	stageClosing    stage = "closing"
)

// happened is a line of the effects: the call that a tool was told it is.
type happened struct {
	Run       batch.RunID       `json:"run"`
	Batch     batch.BatchID     `json:"batch"`
	Operation batch.OperationID `json:"operation"`
	Attempt   int               `json:"attempt"`
	Tool      batch.ToolID      `json:"tool"`
}

// appendFile is a file that only grows, by whole lines.
type appendFile struct{ f *os.File }

func openAppend(name string) (*appendFile, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &appendFile{f}, err
}

// line writes v in one system call.
func (a *appendFile) line(v any) {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = a.f.Write(append(text, '\n'))
	}
	if err != nil {
		fail("%s: %v", a.f.Name(), err)
	}
}

// readLines decodes a file of lines; a file that is not there has none.
func readLines[T any](name string) ([]T, error) {
	text, err := os.ReadFile(name) // #nosec G304 -- a file of ours
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []T
	for scan := bufio.NewReader(bytes.NewReader(text)); ; {
		line, err := scan.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return all, nil
		}
		var v T
		if uerr := json.Unmarshal(line, &v); uerr != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, len(all)+1, uerr)
		}
		all = append(all, v)
	}
}

// aim is where a life kills itself; the zero value lets it live. Another process
// kills it at random times.
type aim struct {
	Commit int  `json:"commit,omitempty"` // at the n-th commit
	Effect int  `json:"effect,omitempty"` // at the n-th effect
	After  bool `json:"after,omitempty"`  // once it is in the journal or the effects, not before
}

// recorder writes the journal and the effects of a life, and strikes where aimed.
type recorder struct {
	life    int
	aim     aim
	journal *appendFile
	effects *appendFile

	mu      sync.Mutex
	commits int
	happens int
}

func (r *recorder) note(e entry) {
	e.Life = r.life
	r.journal.line(e)
}

// strike ends this process as a power switch would.
func (r *recorder) strike(where string) {
	r.note(entry{Strike: where})
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// observe hears of every commit that is durable.
func (r *recorder) observe(run batch.RunID, events []batch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits++
	here := r.commits == r.aim.Commit
	if here && !r.aim.After {
		r.strike(commitPoint(events))
	}
	r.note(entry{Commit: &commit{run, events}})
	if here {
		r.strike(commitPoint(events))
	}
}

// commitPoint names a commit by its events.
func commitPoint(events []batch.Event) string {
	var kinds []string
	for _, ev := range events {
		if n := len(kinds); n == 0 || kinds[n-1] != string(ev.Kind) {
			kinds = append(kinds, string(ev.Kind))
		}
	}
	return strings.Join(kinds, " + ")
}

// effect hears of every effect of a tool; the tool waits meanwhile.
func (r *recorder) effect(text string) {
	var h happened
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		fail("an effect is %q: %v", text, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.happens++
	here := r.happens == r.aim.Effect
	if here && !r.aim.After {
		r.strike(effectPoint)
	}
	r.effects.line(h)
	if here {
		r.strike(effectPoint)
	}
}

// guestLog is a slog.Handler that takes the effects out of the host's log and leaves
// the rest to another.
type guestLog struct {
	slog.Handler
	effect func(text string)
}

const (
	effectPrefix = "effect "
	effectPoint  = "effect" // among the commit points
)

func (g guestLog) Enabled(context.Context, slog.Level) bool { return true }

func (g guestLog) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Message == "guest" {
		var text string
		rec.Attrs(func(a slog.Attr) bool {
			if a.Key == "text" {
				text = a.Value.String()
			}
			return true
		})
		if rest, ok := strings.CutPrefix(text, effectPrefix); ok {
			g.effect(rest)
			return nil
		}
	}
	if !g.Handler.Enabled(ctx, rec.Level) {
		return nil
	}
	return g.Handler.Handle(ctx, rec)
}

func (g guestLog) WithAttrs(as []slog.Attr) slog.Handler {
	return guestLog{g.Handler.WithAttrs(as), g.effect}
}

func (g guestLog) WithGroup(name string) slog.Handler {
	return guestLog{g.Handler.WithGroup(name), g.effect}
}
