package policy

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DefaultWatchEvery is how often files are looked at.
const DefaultWatchEvery = 2 * time.Second

const (
	// settle is how long files must look the same before they are read, and hold the
	// same between two readings: an editor or a copy may be half done.
	settle = 200 * time.Millisecond
	// settleTries bounds the wait for files that never rest.
	settleTries = 50
	// readAnyway is how often files are read although they look the same: a copy can
	// keep times and sizes.
	readAnyway = time.Minute
)

// Watch keeps in force what the sources hold: it looks at files and bundles on disk every
// Options.WatchEvery, downloads the others every BundleOptions.Poll, and replaces the
// policy whole when something changed and is in order. It returns when ctx ends, and
// then nothing of it goes on.
func (g *Gate) Watch(ctx context.Context) {
	var wg sync.WaitGroup
	for _, b := range g.loader.bundles {
		if b.client != nil {
			wg.Go(func() { g.poll(ctx, b) })
		}
	}
	g.watch(ctx)
	wg.Wait()
}

func (g *Gate) watch(ctx context.Context) {
	var tick <-chan time.Time
	if every := cmp.Or(g.o.WatchEvery, DefaultWatchEvery); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	var seen uint64    // how the files looked when they were last read
	var read time.Time // zero: they may have changed since the gate was opened
	for {
		bundle := false
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
			bundle = true
		case <-tick:
		}
		looks := g.loader.looks(ctx)
		if bundle || looks != seen || time.Since(read) >= readAnyway {
			seen, read = looks, time.Now()
			g.refresh(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		g.standing.looked(time.Now().UTC())
		g.writeStatus(false)
	}
}

// refresh puts in force what the sources hold, once they rest, if it is something new.
func (g *Gate) refresh(ctx context.Context) {
	g.reload.Lock()
	defer g.reload.Unlock()
	c, err := g.loader.steady(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		_ = g.swap(ctx, nil, err) // it says so itself
	case c.digest == g.current.Load().digest:
		for i, b := range g.loader.bundles {
			b.inForce(c.versions[i])
		}
		g.refused(nil)
	case !g.standing.refusedBefore(c.digest):
		_ = g.swap(ctx, c, nil)
	}
	for _, b := range g.loader.bundles {
		g.noteBundle(b)
	}
}

// steady reads the sources when they have come to rest: they look the same for a while,
// and two readings of them are equal.
func (l *loader) steady(ctx context.Context) (*draft, error) {
	var before *draft
	var beforeErr error
	for try := range settleTries {
		looks := l.looks(ctx)
		if !sleep(ctx, settle) {
			return nil, ctx.Err()
		}
		if looks != l.looks(ctx) {
			before, beforeErr = nil, nil
			continue
		}
		err := l.lookOnDisk(ctx)
		var c *draft
		if err == nil {
			c, err = l.gather(ctx, false)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case try > 0 && err == nil && before != nil && before.digest == c.digest:
			return c, nil
		case try > 0 && err != nil && beforeErr != nil && err.Error() == beforeErr.Error():
			return nil, err
		}
		before, beforeErr = c, err
	}
	return nil, Problems{{File: strings.Join(l.files, ", "), Message: "does not come to rest: the files change all the time; write them elsewhere and move them here when they are whole"}}
}

// looks is what the files of the policy look like from outside: names, sizes, times and
// which file a name stands for. Links are followed as far as reading does.
func (l *loader) looks(ctx context.Context) uint64 {
	h := fnv.New64a()
	n := 0
	for _, p := range l.files {
		lookAt(ctx, h, filepath.Clean(p), 0, &n)
	}
	for _, b := range l.bundles {
		if b.client == nil {
			lookAt(ctx, h, b.o.Path, 0, &n)
		}
	}
	return h.Sum64()
}

func lookAt(ctx context.Context, w io.Writer, file string, depth int, n *int) {
	if *n++; *n > maxEntries || depth > maxFolderDepth || ctx.Err() != nil {
		return
	}
	info, err := os.Stat(file)
	if err != nil {
		_, _ = fmt.Fprintf(w, "%q %v\n", file, cause(err))
		return
	}
	if depth > 0 && info.Mode().IsRegular() && !countsAsPolicy(file) {
		return
	}
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	size, changed := info.Size(), info.ModTime().UnixNano()
	if info.IsDir() {
		size, changed = 0, 0 // what is in it says more
	}
	_, _ = fmt.Fprintf(w, "%q %v %d %d %d\n", file, info.Mode(), size, changed, inode)
	if !info.IsDir() {
		return
	}
	var entries []fs.DirEntry
	if entries, err = os.ReadDir(file); err != nil {
		_, _ = fmt.Fprintf(w, "%v\n", cause(err))
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			lookAt(ctx, w, filepath.Join(file, e.Name()), depth+1, n)
		}
	}
}

// countsAsPolicy reports whether a file says something of the policy: it is read, or it
// is warned of. Others may change all the time, and need not come to rest.
func countsAsPolicy(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return reads(name) || strings.Contains(name, ".rego")
}

// sleep waits and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
