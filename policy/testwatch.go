package policy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// WatchEvery is how often WatchTests looks for a change.
const WatchEvery = 300 * time.Millisecond

// WatchTests runs tests now and after every change of a file of the policy or of the
// tests, and hands on what came of it, errors included: what does not compile now
// may after the next change. Changes that follow one another closely count as one.
// It returns nil when ctx is done, or the error of show.
func WatchTests(ctx context.Context, o TestOptions, show func(*TestReport, error) error) error {
	for {
		seen := appearance(o)
		r, err := Test(ctx, o)
		if ctx.Err() == nil { // what was cut short is nothing to show
			if err := show(r, err); err != nil {
				return err
			}
		}
		var settled uint64
		for changed := false; !changed; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(WatchEvery):
			}
			now := appearance(o)
			changed = now != seen && now == settled
			settled = now
		}
	}
}

// appearance is what the files under the paths look like from outside: names, sizes
// and times.
func appearance(o TestOptions) uint64 {
	h := fnv.New64a()
	n := 0
	look := func(file string, _ fs.DirEntry, err error) error {
		if n++; n > maxEntries {
			return fs.SkipAll
		}
		info, statErr := os.Stat(file)
		if err = errors.Join(err, statErr); err != nil {
			_, _ = fmt.Fprintln(h, file, err)
			return nil
		}
		_, _ = fmt.Fprintln(h, file, info.Size(), info.ModTime().UnixNano(), info.Mode())
		return nil
	}
	paths := append(slices.Clone(o.Policy.Paths), o.Tests...)
	for i := range o.Policy.Bundles {
		if p := o.Policy.Bundles[i].Path; p != "" {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		_ = filepath.WalkDir(p, look)
	}
	return h.Sum64()
}
