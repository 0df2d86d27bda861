package badgerstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/badgerstore"
)

// The test binary runs itself as another process when these are set.
const (
	childDir  = "BADGERSTORE_TEST_CHILD_DIR"
	childMode = "BADGERSTORE_TEST_CHILD_MODE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := runChild(dir, os.Getenv(childMode)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runChild(dir, mode string) error {
	s, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	switch mode {
	case "hold":
		select {}
	case "commit":
		return commitForever(s)
	}
	return s.Close()
}

// child is a started process whose lines of standard output can be read.
type child struct {
	cmd   *exec.Cmd
	lines chan string
}

func startChild(t *testing.T, dir, mode string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1<<16)}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, childMode+"="+mode)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	select {
	case line, ok := <-c.lines:
		if !ok || line != "open" {
			t.Fatalf("the child said %q", line)
		}
	case <-time.After(time.Minute):
		t.Fatal("the child never opened the store")
	}
	return c
}

// kill sends SIGKILL and returns what was printed since the start.
func (c *child) kill() (lines []string) {
	_ = c.cmd.Process.Kill()
	for line := range c.lines {
		lines = append(lines, line)
	}
	_ = c.cmd.Wait()
	return lines
}

const crashWriters = 6

// commitForever lets several runs commit and prints each acknowledged version in
// a line of its own. Every commit changes every kind of record, with values that
// tell its version.
func commitForever(s *badgerstore.Store) error {
	var wg sync.WaitGroup
	var out sync.Mutex
	failed := make(chan error, crashWriters)
	for w := range crashWriters {
		wg.Go(func() {
			id := batch.RunID(fmt.Sprint("run-", w))
			for {
				v, err := commitNext(s, id)
				if err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Println(id, v)
				out.Unlock()
			}
		})
	}
	err := <-failed
	wg.Wait()
	return err
}

// commitNext makes the commit that takes a run from version v to v+1: events v*2+1
// and v*2+2, one decision, one ticket, one state value, and a new batch at every
// version of which the last is finalized in the next commit.
func commitNext(s *badgerstore.Store, id batch.RunID) (uint64, error) {
	ctx := context.Background()
	r, err := s.Run(ctx, id)
	if err != nil {
		r = &batch.Run{ID: id, Fence: batch.Fence{Owner: "crash", Epoch: 1}, CreatedAt: crashTime}
	}
	v := r.Version
	c := &batch.Commit{Run: r, Expect: v}
	if v%2 == 0 {
		step := int(v/2) + 1
		c.Batch, c.NewBatch = crashBatch(id, step), true
		r.LastStep, r.OpenStep = step, step
	} else {
		if c.Batch, err = s.Batch(ctx, id, r.OpenStep); err != nil {
			return 0, err
		}
		b := c.Batch
		for i := range b.Calls {
			if err := b.Complete(i, crashOutput(b.Calls[i].Call.ID, v), batch.AnswerPolicy, crashTime); err != nil {
				return 0, err
			}
			c.Changed = append(c.Changed, i)
		}
		if err := b.Finalize(crashTime); err != nil {
			return 0, err
		}
		r.OpenStep = 0
	}
	note := fmt.Sprint(v)
	c.Events = []batch.Event{
		{Seq: r.LastSeq + 1, Kind: batch.EventCallExecuting, Time: crashTime, Note: note},
		{Seq: r.LastSeq + 2, Kind: batch.EventCallCompleted, Time: crashTime, Note: note},
	}
	r.LastSeq += 2
	c.Decisions = []*batch.DecisionRecord{{Operation: batch.NewOperationID(id, 1, 0), Seq: int(v) + 1, Time: crashTime, Outcome: batch.OutcomeAllow}}
	c.Tickets = []*batch.Ticket{{ID: batch.TicketID(fmt.Sprint(id, "-", v)), Run: id, Status: batch.TicketOpen, CreatedAt: crashTime}}
	c.State = []batch.StateWrite{{Key: "version", Value: []byte(note)}}
	if err := s.Commit(ctx, c); err != nil {
		return 0, err
	}
	return v + 1, nil
}

var crashTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func crashBatch(id batch.RunID, step int) *batch.Batch {
	b := &batch.Batch{Run: id, Step: step, Phase: batch.BatchOpen, RequestedAt: crashTime, Message: []byte("message")}
	for i := range 3 {
		args := strings.Repeat("a", 100)
		if step%8 == 0 && i == 0 {
			args = strings.Repeat("a", 100<<10) // into the value log
		}
		b.Calls = append(b.Calls, batch.CallState{
			Call:  batch.Call{Run: id, Step: step, Index: i, ID: batch.CallID(fmt.Sprint("call-", i)), Tool: "t", Arguments: []byte(args)},
			Phase: batch.PhaseRequested,
		})
	}
	return b
}

func crashOutput(id batch.CallID, v uint64) *batch.Output {
	text := fmt.Sprint(v)
	if v%16 == 1 {
		text += strings.Repeat(" ", 64<<10)
	}
	return &batch.Output{CallID: id, Content: []batch.ContentBlock{batch.TextBlock(text)}}
}
