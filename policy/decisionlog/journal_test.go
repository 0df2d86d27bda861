package decisionlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func testLine(n, size int) []byte {
	line := fmt.Appendf(nil, `{"decision_id":"r/1/0/%d","timestamp":"2026-11-30T20:00:00Z","pad":"`, n)
	return append(append(line, bytes.Repeat([]byte{'x'}, max(0, size-len(line)-3))...), "\"}\n"...)
}

func testJournal(t *testing.T, o File, now func() time.Time) *journal {
	t.Helper()
	if now == nil {
		now = func() time.Time { return at }
	}
	j, err := openJournal(o, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() })
	return j
}

func put1(t *testing.T, j *journal, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if err := j.append(testLine(n, 100)); err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// A file of somebody else, named by mistake, is left as it is.
func TestFilesOfOthers(t *testing.T) {
	whole := string(testLine(1, 100))
	for name, c := range map[string]struct {
		text string
		ours bool
	}{
		"empty":                      {"", true},
		"decisions":                  {whole, true},
		"a line cut short":           {whole + whole[:50], true},
		"the first line cut short":   {whole[:50], true},
		"cut short at its beginning": {whole[:5], true},
		"text":                       {"precious\nlast line", false},
		"a policy":                   {"package awaken.policy\n", false},
		"other JSON":                 {`{"calls":[]}`, false},
		"another log":                {`{"time":"x"}` + "\n" + whole, false},
		"bytes":                      {"\x00\x00", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := openJournal(File{Path: path}, func() time.Time { return at }, slog.New(slog.DiscardHandler))
			if c.ours {
				if err != nil {
					t.Fatal(err)
				}
				if err := j.close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "d.jsonl: holds something else than decisions") {
				t.Errorf("got %v", err)
			}
			if raw, err := os.ReadFile(path); string(raw) != c.text || err != nil {
				t.Errorf("it is now %q, %v", raw, err)
			}
		})
	}
}

func TestRotationBySize(t *testing.T) {
	dir := t.TempDir()
	j := testJournal(t, File{Path: filepath.Join(dir, "d"), MaxBytes: 250, Keep: 2}, nil)
	put1(t, j, 1, 9)
	if got := names(t, dir); got != "d d.000003 d.000004" {
		t.Errorf("files %s", got)
	}
	if got := lines(t, filepath.Join(dir, "d.000004")); !slices.Equal(got, []string{"r/1/0/7", "r/1/0/8"}) {
		t.Errorf("the newest has %v", got)
	}
	// A line larger than a file has one of its own.
	if err := j.append(testLine(10, 1000)); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 11, 11)
	if got := lines(t, filepath.Join(dir, "d.000006")); !slices.Equal(got, []string{"r/1/0/10"}) {
		t.Errorf("the large one is in %v", got)
	}
}

func TestRotationByAge(t *testing.T) {
	dir := t.TempDir()
	now := at
	j := testJournal(t, File{Path: filepath.Join(dir, "d"), MaxAge: time.Hour, Keep: 5}, func() time.Time { return now })
	put1(t, j, 1, 1)
	now = at.Add(59 * time.Minute)
	put1(t, j, 2, 2)
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	j = testJournal(t, j.o, func() time.Time { return now }) // age is that of the first line, also after a start
	put1(t, j, 3, 3)
	now = at.Add(time.Hour)
	put1(t, j, 4, 4)
	if got := lines(t, filepath.Join(dir, "d.000001")); len(got) != 3 {
		t.Errorf("the old one has %v", got)
	}
	if got := lines(t, filepath.Join(dir, "d")); len(got) != 1 {
		t.Errorf("the new one has %v", got)
	}
}

func TestOthersRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	j := testJournal(t, File{Path: path, Sync: true}, nil)
	put1(t, j, 1, 2)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 3, 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 4, 4)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 5, 5)
	if got := lines(t, path); !slices.Equal(got, []string{"r/1/0/5"}) {
		t.Errorf("the file has %v", got)
	}
	if got := lines(t, path+".moved"); len(got) != 2 {
		t.Errorf("the moved one has %v", got)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, os.DevNull} {
		if _, err := openJournal(File{Path: path}, time.Now, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The folder of a log can go and come back while the host runs.
func TestFolderIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	j := testJournal(t, File{Path: filepath.Join(dir, "d")}, nil)
	put1(t, j, 1, 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 2, 2)
	if got := lines(t, j.o.Path); len(got) != 1 {
		t.Errorf("the file has %v", got)
	}
}

// has knows what was written since, over rotations.
func TestHas(t *testing.T) {
	j := testJournal(t, File{Path: filepath.Join(t.TempDir(), "d"), MaxBytes: 250}, nil)
	put1(t, j, 1, 7)
	if err := j.append(testLine(8, 1<<20)); err != nil { // longer than any buffer
		t.Fatal(err)
	}
	ids, err := j.has(time.Now())
	if err != nil || len(ids) != 8 || !ids["r/1/0/1"] || !ids["r/1/0/8"] {
		t.Errorf("%v %v", ids, err)
	}
	old := at.Add(-100 * time.Hour)
	if err := os.Chtimes(j.name(1), old, old); err != nil {
		t.Fatal(err)
	}
	if ids, err := j.has(at); err != nil || len(ids) != 6 || ids["r/1/0/1"] {
		t.Errorf("%v %v", ids, err)
	}
}

// Lines of many writers come out whole, and a sync covers the line it is for.
func TestLinesAreWhole(t *testing.T) {
	j := testJournal(t, File{Path: filepath.Join(t.TempDir(), "d"), Sync: true, MaxBytes: 5000, Keep: 1000}, nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 50 {
				if err := j.append(testLine(i*50+n, 80+n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if ids, err := j.has(time.Now()); err != nil || len(ids) != 800 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
}

// TestDiskIsFull runs itself under a limit on the size of files, which the kernel
// treats as a full disk: a write that only goes half is taken back.
func TestDiskIsFull(t *testing.T) {
	const key = "DECISIONLOG_TEST_FULL"
	if dir := os.Getenv(key); dir != "" {
		fullDisk(t, filepath.Join(dir, "d"))
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiskIsFull$", "-test.v")
	cmd.Env = append(os.Environ(), key+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := lines(t, filepath.Join(dir, "d")); len(got) != 15 {
		t.Errorf("the file has %v", got)
	}
}

func fullDisk(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1050, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	j := testJournal(t, File{Path: path}, nil)
	for n := 1; n <= 13; n++ {
		err := j.append(testLine(n, 100))
		if (err != nil) != (n > 10) {
			t.Errorf("line %d: %v", n, err)
		}
		if err != nil && !errors.Is(err, syscall.EFBIG) && !errors.Is(err, os.ErrInvalid) && !strings.Contains(err.Error(), "short write") {
			t.Errorf("line %d: %v", n, err)
		}
		if got := lines(t, path); len(got) != min(n, 10) {
			t.Errorf("after line %d: %v", n, got)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	put1(t, j, 14, 18)
}

// A failed sync takes back the lines that nobody was told were written.
func TestSyncFails(t *testing.T) {
	l, err := openLines(filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.append(testLine(1, 100))
	if err != nil || l.sync(first) != nil {
		t.Fatal(err)
	}
	if _, err := l.append(testLine(2, 100)); err != nil {
		t.Fatal(err)
	}
	file := l.f
	r, w, err := os.Pipe() // which cannot be synced
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _, _ = r.Close(), w.Close(), file.Close() }()
	l.f = w
	if err := l.sync(2); err == nil {
		t.Fatal("a pipe was synced")
	}
	l.f = file
	if _, err := l.append(testLine(3, 100)); err == nil {
		t.Error("the file takes more")
	}
	if err := l.sync(2); err == nil {
		t.Error("the lost line counts as written")
	}
	if err := l.sync(1); err != nil {
		t.Errorf("what was on disk before: %v", err)
	}
}

// FuzzRepair: whatever a crash leaves, the whole lines stay and nothing else does.
func FuzzRepair(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add([]byte(""))
	f.Add([]byte("\n\n"))
	f.Add(bytes.Repeat([]byte{0}, 70<<10))
	path := filepath.Join(f.TempDir(), "d") // of this process: one input at a time
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLines(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.close() }()
		want := content[:bytes.LastIndexByte(content, '\n')+1]
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) || l.size != int64(len(want)) {
			t.Fatalf("%q became %q, size %d, %v", content, got, l.size, err)
		}
		if _, err := l.append([]byte("z\n")); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, append(bytes.Clone(want), "z\n"...)) {
			t.Fatalf("then %q", got)
		}
	})
}
