package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

var ledgerKey = bytes.Repeat([]byte{3}, 32)

func openTestLedger(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := OpenLedger(dir, ledgerKey)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func ledgerOutput(text string) *batch.Output {
	return &batch.Output{CallID: "c", Content: []batch.ContentBlock{
		batch.TextBlock(text), batch.JSONBlock(json.RawMessage(`{ "a" : "<b>" }`)),
		{Type: batch.BlockImage, Data: []byte{0, 1}, MimeType: "image/png"},
	}, State: []batch.Command{{Op: batch.OpSet, Key: "k", Value: json.RawMessage(`[1, 2]`)}, {Op: batch.OpDelete, Key: "d"}}}
}

// mustAdd begins an operation, and finishes it with text if there is one.
func mustAdd(t *testing.T, l *Ledger, op batch.OperationID, attempt int, text string) {
	t.Helper()
	if err := l.Begin(op, attempt); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := l.Finish(LedgerRecord{Operation: op, Attempt: attempt, Output: ledgerOutput(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

func lookup(t *testing.T, l *Ledger, op batch.OperationID) LedgerRecord {
	t.Helper()
	rec, err := l.Lookup(op)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestLedger(t *testing.T) {
	dir := t.TempDir()
	l, reader := openTestLedger(t, dir), openTestLedger(t, dir)
	mustAdd(t, l, "r/1/0", 1, "one")
	mustAdd(t, l, "r/1/1", 1, "")
	mustAdd(t, l, "r/1/1", 2, "")
	if err := l.Finish(LedgerRecord{Operation: "r/1/2", Attempt: 1, Failed: batch.ToolErrorExecution, Message: "stopped"}); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Ledger{"writer": l, "reader": reader, "new": openTestLedger(t, dir)} {
		done := lookup(t, l, "r/1/0")
		if string(done.Output.Content[1].JSON) != `{ "a" : "<b>" }` || string(done.Output.State[0].Value) != `[1, 2]` || !done.Done || done.Attempt != 1 {
			t.Errorf("%s: %+v %s", name, done, done.Output.Content[1].JSON)
		}
		if rec := lookup(t, l, "r/1/1"); rec.Done || rec.Attempt != 2 {
			t.Errorf("%s: %+v", name, rec)
		}
		if rec := lookup(t, l, "r/1/2"); !rec.Done || rec.Failed != batch.ToolErrorExecution || rec.Message != "stopped" || rec.Output != nil {
			t.Errorf("%s: %+v", name, rec)
		}
		if rec := lookup(t, l, "r/9/9"); rec.Attempt != 0 || rec.Operation != "r/9/9" {
			t.Errorf("%s: %+v", name, rec)
		}
	}
	if err := openTestLedger(t, dir).Begin("r/2/0", 1); !errors.Is(err, ErrLedgerTaken) {
		t.Errorf("two write: %v", err)
	}
	if _, err := OpenLedger(dir, []byte("short")); err == nil {
		t.Error("a short key is taken")
	}
	if _, err := OpenLedger(filepath.Join(dir, "none"), ledgerKey); err == nil {
		t.Error("a folder that is not there is taken")
	}
}

// What was changed does not verify: it is as if it were not there, and that is said.
func TestLedgerDamage(t *testing.T) {
	build := func(t *testing.T) (string, []byte) {
		dir := t.TempDir()
		l := openTestLedger(t, dir)
		for i := range 3 {
			mustAdd(t, l, batch.OperationID(fmt.Sprintf("r/1/%d", i)), 1, fmt.Sprintf("text %d", i))
		}
		_ = l.Close()
		b, err := os.ReadFile(filepath.Join(dir, LedgerFile))
		if err != nil {
			t.Fatal(err)
		}
		return dir, b
	}
	record := func(b []byte, text string) (from, to int) {
		at := bytes.Index(b, []byte(text))
		for pos := 0; ; {
			n := ledgerHead + int(b[pos+6])<<8 + int(b[pos+7])
			if at < pos+n {
				return pos, pos + n
			}
			pos += n
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"another result": func(b []byte) []byte { return bytes.Replace(b, []byte("text 1"), []byte("text X"), 1) },
		"a record is gone": func(b []byte) []byte {
			from, to := record(b, "text 1")
			return append(bytes.Clone(b[:from]), b[to:]...)
		},
		"a record stands twice": func(b []byte) []byte {
			from, to := record(b, "text 1")
			return append(append(bytes.Clone(b[:to]), b[from:to]...), b[to:]...)
		},
		"the beginning is gone": func(b []byte) []byte {
			from, _ := record(b, "text 1")
			return b[from:]
		},
		"the end is cut": func(b []byte) []byte {
			_, to := record(b, "text 2")
			return b[:to-5]
		},
		"a length": func(b []byte) []byte {
			from, _ := record(b, "text 1")
			b[from] = 0xff
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, b := build(t)
			if err := os.WriteFile(filepath.Join(dir, LedgerFile), change(b), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(l *Ledger) {
				t.Helper()
				if err := l.Damage(); !errors.Is(err, ErrLedgerDamaged) {
					t.Errorf("damage is %v", err)
				}
				if rec, err := l.Lookup("r/7/7"); rec.Attempt != 0 || !errors.Is(err, ErrLedgerDamaged) {
					t.Errorf("%+v, %v", rec, err)
				}
				if rec, err := l.Lookup("r/1/1"); err == nil && rec.Done && rec.Output.Content[0].Text != "text 1" {
					t.Errorf("%+v", rec)
				}
			}
			check(openTestLedger(t, dir))
			// Written anew, it still says so, and takes records.
			l := openTestLedger(t, dir)
			mustAdd(t, l, "r/5/0", 1, "new")
			_ = l.Close()
			check(openTestLedger(t, dir))
			if rec := lookup(t, openTestLedger(t, dir), "r/5/0"); !rec.Done {
				t.Errorf("%+v", rec)
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		dir, _ := build(t)
		l, err := OpenLedger(dir, bytes.Repeat([]byte{4}, 32))
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := l.Lookup("r/1/0"); rec.Attempt != 0 || !errors.Is(err, ErrLedgerDamaged) {
			t.Errorf("%+v, %v", rec, err)
		}
	})
	t.Run("a link", func(t *testing.T) {
		dir, _ := build(t)
		other := t.TempDir()
		if err := os.Symlink(filepath.Join(dir, LedgerFile), filepath.Join(other, LedgerFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLedger(other, ledgerKey); err == nil {
			t.Error("it is followed")
		}
	})
}

// A ledger stays within its bounds; what is not done is kept.
func TestLedgerIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openTestLedger(t, dir)
	mustAdd(t, l, "open/1/0", 1, "")
	big := strings.Repeat("x", 8<<20)
	for i := range 12 {
		op := batch.OperationID(fmt.Sprintf("r/1/%d", i))
		if err := l.Finish(LedgerRecord{Operation: op, Attempt: 1, Output: ledgerOutput(big)}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, LedgerFile))
	if err != nil || info.Size() > maxLedgerBytes+(16<<20) {
		t.Errorf("%v, %v", info.Size(), err)
	}
	_ = l.Close()
	l = openTestLedger(t, dir)
	if rec := lookup(t, l, "open/1/0"); rec.Attempt != 1 || rec.Done {
		t.Errorf("%+v", rec)
	}
	if rec := lookup(t, l, "r/1/0"); rec.Attempt != 0 {
		t.Errorf("the oldest is still there: attempt %d", rec.Attempt)
	}
	if rec := lookup(t, l, "r/1/11"); !rec.Done || len(rec.Output.Content[0].Text) != len(big) {
		t.Error("the newest is not there")
	}
	if err := l.Damage(); err != nil {
		t.Error(err)
	}
}

const ledgerChild = "SANDBOX_TEST_LEDGER"

// Whatever a process that is killed said it had recorded is there.
func TestLedgerSurvivesAKill(t *testing.T) {
	if dir := os.Getenv(ledgerChild); dir != "" {
		l := openTestLedger(t, dir)
		for i := 0; ; i++ {
			mustAdd(t, l, batch.OperationID(fmt.Sprintf("r/1/%d", i)), 1, strings.Repeat("x", i*100))
			fmt.Fprintln(os.Stderr, "have", i)
		}
	}
	for _, after := range []string{"have 1", "have 7", "have 23"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestLedgerSurvivesAKill$")
		cmd.Env = append(os.Environ(), ledgerChild+"="+dir)
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for buf := make([]byte, 4096); !bytes.Contains(all, []byte(after+"\n")); {
			n, err := said.Read(buf)
			if all = append(all, buf[:n]...); err != nil {
				t.Fatalf("%v: %s", err, all)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		l := openTestLedger(t, dir)
		var last int
		if _, err := fmt.Sscanf(after, "have %d", &last); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= last; i++ {
			if rec := lookup(t, l, batch.OperationID(fmt.Sprintf("r/1/%d", i))); !rec.Done || len(rec.Output.Content[0].Text) != i*100 {
				t.Errorf("operation %d: %+v", i, rec)
			}
		}
		mustAdd(t, l, "after/1/0", 1, "goes on")
	}
}

// FuzzLedger: whatever stands in the file, only what the key sealed comes out.
func FuzzLedger(f *testing.F) {
	dir := f.TempDir()
	l, err := OpenLedger(dir, ledgerKey)
	if err != nil {
		f.Fatal(err)
	}
	_ = l.Begin("r/1/0", 1)
	_ = l.Finish(LedgerRecord{Operation: "r/1/0", Attempt: 1, Output: ledgerOutput("true")})
	_ = l.Close()
	good, err := os.ReadFile(filepath.Join(dir, LedgerFile))
	if err != nil {
		f.Fatal(err)
	}
	good = bytes.TrimRight(good, "\x00")
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, LedgerFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLedger(dir, ledgerKey)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if rec, err := l.Lookup("r/1/0"); err == nil && rec.Done && rec.Output.Content[0].Text != "true" {
			t.Errorf("%+v", rec)
		}
		if err := l.Begin("r/2/0", 1); err != nil {
			t.Fatal(err)
		}
		if rec, err := l.Lookup("r/2/0"); err != nil || rec.Attempt != 1 {
			t.Errorf("%+v, %v", rec, err)
		}
	})
}
