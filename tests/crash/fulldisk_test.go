package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// smallDisk mounts a file system of its own for the test.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	// #nosec G204 -- arguments of ours
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=0700", mib), "awaken-crash", dir).CombinedOutput()
	if err != nil {
		why := fmt.Sprintf("no small disk: mount: %v: %s; run the test as root, where a tmpfs may be mounted", err, bytes.TrimSpace(out))
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil { // #nosec G204 -- a folder of ours
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// ballast fills a disk until keep bytes are free.
type ballast struct {
	t    *testing.T
	disk string
}

func (b ballast) name() string { return filepath.Join(b.disk, "ballast") }

func (b ballast) fill(keep int64) {
	b.t.Helper()
	f, err := os.OpenFile(b.name(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	for chunk := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(chunk)
	}
	st, serr := f.Stat()
	if serr != nil {
		b.t.Fatal(serr)
	}
	if keep > 0 {
		serr = f.Truncate(max(0, st.Size()-keep))
	}
	if err := errors.Join(serr, f.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func (b ballast) drop() {
	if err := os.Remove(b.name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Error(err)
	}
}

// TestDiskNearlyFull: a new batch is refused with an error that says so, what is open
// is brought to its end, and all is as before once there is space.
func TestDiskNearlyFull(t *testing.T) {
	config, _ := newStage(t, "\n[store]\nmin_free_mib = 32\n")
	disk := smallDisk(t, 192)
	h := openHost(t, config, disk, &memoryRecorder{})
	res, err := submitCalls(t.Context(), h, "open", asked(kindConfirmed, toolOnce, 1, "confirm"), effect(toolSafe, 0, 2))
	if err != nil || len(res.Tickets) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	b := ballast{t, disk}
	b.fill(16 << 20)
	if _, err := submitCalls(t.Context(), h, "new", effect(toolOnce, 0, 1)); !errors.Is(err, batch.ErrDiskFull) || !strings.Contains(err.Error(), "free") {
		t.Errorf("a new batch: %v", err)
	}
	if _, err := h.Show(t.Context(), "new"); !errors.Is(err, batch.ErrNotFound) {
		t.Errorf("of the refused batch there is: %v", err)
	}
	if res, err = h.Decide(t.Context(), res.Tickets[0].Ticket, batch.TicketAnswer{By: approver, Approve: true}); err != nil || res.Phase != batch.BatchFinalized {
		t.Errorf("the open batch: %+v, %v", res, err)
	}
	b.drop()
	if res, err := submitCalls(t.Context(), h, "new", effect(toolOnce, 0, 1)); err != nil || res.Phase != batch.BatchFinalized {
		t.Errorf("a new batch when there is space: %+v, %v", res, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// TestDiskFull: the disk fills up to the last byte while the host works. The process
// may die of it or refuse to go on; nothing that it acknowledged is lost, and it goes
// on when there is space.
func TestDiskFull(t *testing.T) {
	config, dir := newStage(t, "\n[store]\nmin_free_mib = 1\n")
	disk := smallDisk(t, 160)
	b := ballast{t, disk}
	w := newWorld(config, dir)
	w.data = filepath.Join(disk, dataName)
	w.check.faults = batch.DefaultMaxAttempts // a life that lives on may try again
	full := 0
	for _, commits := range []int{1, 8, 8, 8} {
		w.lives++
		b.fill(8 << 20)
		cmd, log := w.command(aim{})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.await(t, commits)
		b.fill(0)
		stop := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if !stop.Stop() {
			t.Errorf("life %d went on for 20 s on a full disk", w.lives)
		}
		if err != nil {
			full++
			t.Logf("life %d: %v: %s", w.lives, err, firstLine(log.String()))
		}
		b.drop()
		journal, rerr := readLines[entry](filepath.Join(w.dir, journalName))
		if rerr != nil {
			t.Fatal(rerr)
		}
		violations, rerr := w.look(journal, err == nil)
		if rerr != nil {
			t.Fatal(rerr)
		}
		for _, v := range violations {
			t.Errorf("after life %d: %s", w.lives, v)
		}
		if err == nil {
			break
		}
	}
	if full < 2 {
		t.Errorf("%d lives met the full disk", full)
	}
	e, violations, err := w.live(aim{}, 0)
	if err != nil || e.killed {
		t.Fatalf("with space again: %+v, %v", e, err)
	}
	for _, v := range violations {
		t.Errorf("with space again: %s", v)
	}
}

// await returns when the life that goes on has seen so many commits, or has had time
// to come to its end.
func (w *world) await(t *testing.T, commits int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		journal, err := os.ReadFile(filepath.Join(w.dir, journalName))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		mark := fmt.Appendf(nil, `{"life":%d,`, w.lives)
		n := 0
		for line := range bytes.Lines(journal) {
			if !bytes.HasPrefix(line, mark) {
				continue
			}
			if bytes.Contains(line, []byte(stageClosing)) {
				return
			}
			if bytes.Contains(line, []byte(`"commit"`)) {
				n++
			}
		}
		if n >= commits {
			return
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
