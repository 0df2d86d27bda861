package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// disk remembers what a power cut would leave of a store's folder: of the files
// that the store syncs itself their content at the last sync, under names that were
// in a folder when that was synced.
type disk struct {
	t     *testing.T
	dir   string
	mu    sync.Mutex
	bytes map[string][]byte // content at the last sync, by name below dir
	names map[string]bool   // durable names
	fresh map[string]bool   // contents that were synced under a name that they do not keep
}

func watchDisk(t *testing.T, s *Store) *disk {
	d := &disk{t: t, dir: s.dir, bytes: map[string][]byte{}, names: map[string]bool{}, fresh: map[string]bool{}}
	s.wal.sync = func(f *os.File) error {
		err := syncData(f)
		d.file(f.Name())
		return err
	}
	s.folder.sync = func(f *os.File) error {
		err := f.Sync()
		d.folder(f.Name())
		return err
	}
	s.files.synced = func(path string) {
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			d.folder(path)
		} else {
			d.file(path)
		}
	}
	d.folder(s.dir) // Open has synced it
	return d
}

func (d *disk) file(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return // flushed to a table meanwhile
	}
	if err != nil {
		d.t.Error(err)
	}
	name, _ := filepath.Rel(d.dir, path)
	d.bytes[name] = p
	d.fresh[string(p)] = true
}

func (d *disk) folder(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, err := os.ReadDir(path)
	if err != nil {
		d.t.Error(err)
	}
	for _, e := range list {
		name, _ := filepath.Rel(d.dir, filepath.Join(path, e.Name()))
		d.names[name] = true
	}
}

// powerCut returns a folder with nothing but what is durable.
func (d *disk) powerCut() string {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.t.TempDir()
	put := func(name string, p []byte) {
		path := filepath.Join(to, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, p, 0o600)); err != nil {
			d.t.Fatal(err)
		}
	}
	// What Badger syncs itself.
	for _, pattern := range []string{"MANIFEST", "KEYREGISTRY", "DISCARD", "*.sst", "*.vlog"} {
		paths, err := filepath.Glob(filepath.Join(d.dir, pattern))
		if err != nil {
			d.t.Fatal(err)
		}
		for _, path := range paths {
			p, err := os.ReadFile(path)
			if err != nil {
				d.t.Fatal(err)
			}
			put(filepath.Base(path), p)
		}
	}
	for name, p := range d.bytes {
		if strings.HasSuffix(name, walSuffix) && d.names[name] {
			if _, err := os.Stat(filepath.Join(d.dir, name)); err == nil {
				put(name, p)
			}
		}
	}
	for name := range d.names {
		if filepath.Dir(filepath.Dir(name)) != filesFolder || !d.names[filepath.Dir(name)] || !d.names[filesFolder] {
			continue
		}
		if p, err := os.ReadFile(filepath.Join(d.dir, name)); err == nil && d.fresh[string(p)] {
			put(name, p)
		}
	}
	return to
}

// TestPowerCut commits, and then takes away every byte that no sync has covered.
func TestPowerCut(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{})
	d := watchDisk(t, s)
	type want struct{ version, values int }
	runs := map[batch.RunID]want{}
	commit := func(id batch.RunID, values, size int) {
		t.Helper()
		c := simple(id, uint64(runs[id].version))
		for i := range values {
			c.State = append(c.State, batch.StateWrite{Key: fmt.Sprint(i), Value: bytes.Repeat([]byte{byte('a' + runs[id].version)}, size)})
		}
		if err := s.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		runs[id] = want{runs[id].version + 1, values}
	}
	check := func() {
		t.Helper()
		for name, p := range d.bytes {
			now, err := os.ReadFile(filepath.Join(s.dir, name))
			if strings.HasSuffix(name, walSuffix) && err == nil && !bytes.Equal(p, now) {
				t.Fatalf("%s was written to after its last sync", name)
			}
		}
		cut, err := Open(d.powerCut(), Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer cut.Close()
		for id, w := range runs {
			r, err := cut.Run(ctx, id)
			if err != nil || int(r.Version) != w.version {
				t.Fatalf("run %s: %+v, %v, want version %d", id, r, err, w.version)
			}
			state, err := cut.State(ctx, id)
			if err != nil || len(state) != w.values {
				t.Fatalf("run %s: %d values, %v, want %d", id, len(state), err, w.values)
			}
		}
	}
	commit("small", 1, 10)
	check()
	commit("small", 1, 10)
	check()
	commit("large", 1, largeBytes)
	check()
	commit("larger", 3, 3*largeBytes)
	commit("larger", 3, 2*largeBytes)
	check()
	first := s.wal.number
	for s.wal.number < first+2 { // several log files
		before := s.wal.number
		commit("much", 60, largeBytes-200)
		if s.wal.number > before {
			check()
		}
	}
	commit("small", 1, 10)
	check()
	if err := s.Delete(ctx, "larger", 2); err != nil {
		t.Fatal(err)
	}
	delete(runs, "larger")
	check()
}

// TestReadersSeeWhatIsDurable looks at a commit that is written and not yet synced.
func TestReadersSeeWhatIsDurable(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{})
	if err := s.Commit(ctx, simple("a", 0)); err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan error)
	s.wal.sync = func(*os.File) error {
		entered <- struct{}{}
		return <-leave
	}
	version := func() uint64 {
		r, err := s.Run(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	for _, tt := range []struct {
		err   error
		after uint64
	}{{nil, 2}, {errors.New("input/output error"), 2}} {
		done := make(chan error)
		before := version()
		go func() { done <- s.Commit(ctx, simple("a", before)) }()
		<-entered
		if v := version(); v != before {
			t.Fatalf("version %d is seen before it is durable", v)
		}
		leave <- tt.err
		if err := <-done; !errors.Is(err, tt.err) {
			t.Fatalf("commit: %v, want %v", err, tt.err)
		}
		if v := version(); v != tt.after {
			t.Fatalf("version is %d, want %d", v, tt.after)
		}
	}
	if err := s.Commit(ctx, simple("b", 0)); err == nil || !strings.Contains(err.Error(), "opened again") {
		t.Fatalf("a commit after a failed sync: %v", err)
	}
}

// TestSetAside never touches what is there.
func TestSetAside(t *testing.T) {
	for _, tt := range []struct {
		name  string
		data  map[int64]string
		ready int64
		aside bool
	}{
		{"empty", nil, 0, true},
		{"behind the log", map[int64]string{0: "log", 4000: "log"}, 4003, true},
		{"within what is ready", map[int64]string{0: "log", 10: "log"}, 4096, true},
		{"data where nothing should be", map[int64]string{0: "log", 70000: "log"}, 3, false},
		{"data at once", map[int64]string{4096: "log"}, 4000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "00001.mem"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(2 * memTableBytes); err != nil {
				t.Fatal(err)
			}
			for at, text := range tt.data {
				if _, err := f.WriteAt([]byte(text), at); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			w := &wal{f: f, used: tt.ready, ready: tt.ready}
			setAside(w, tt.ready+100)
			if aside := w.ready < 1<<40; aside != tt.aside || aside && w.ready < tt.ready+100 {
				t.Fatalf("ready up to %d", w.ready)
			}
			after, err := os.ReadFile(f.Name())
			if err != nil || !bytes.Equal(before, after) {
				t.Fatalf("the file changed, %v", err)
			}
		})
	}
}

// TestLogEstimate holds what the writer thinks of the log against what Badger
// wrote: room that is set aside must never be below it.
func TestLogEstimate(t *testing.T) {
	s := openStore(t, Options{})
	for n := range 150 {
		c := simple(batch.RunID(fmt.Sprint("run", n)), 0)
		for i := range n % 7 {
			c.State = append(c.State, batch.StateWrite{Key: fmt.Sprint(i), Value: bytes.Repeat([]byte("x"), n*i)})
		}
		if err := s.Commit(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		if n%50 != 0 {
			continue
		}
		p, err := os.ReadFile(walPath(s.dir, s.wal.number))
		if err != nil {
			t.Fatal(err)
		}
		used := int64(len(bytes.TrimRight(p, "\x00")))
		if s.wal.used < used || s.wal.used > 2*used+4096 || s.wal.ready < s.wal.used || s.wal.ready > 1<<40 {
			t.Fatalf("after %d commits: %d bytes, thought %d, ready %d", n, used, s.wal.used, s.wal.ready)
		}
	}
}
