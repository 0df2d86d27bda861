package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// startPatience bounds the download at start of a bundle that an earlier process kept
// a copy of.
const startPatience = 3 * time.Second

// version is a bundle with how it came here.
type version struct {
	content   *content
	etag      string
	fetched   time.Time
	confirmed time.Time // when its source last said that it is current
	restored  bool      // from the copy of an earlier process
}

// bundleSource is where one bundle comes from, and its newest versions.
type bundleSource struct {
	o        BundleOptions
	at       string // how messages call it
	dir      string // where copies are kept; empty: nowhere
	builtins []string
	keys     []loadedKey
	client   *http.Client // nil: on disk

	fetching sync.Mutex // held by check

	mu      sync.Mutex
	good    *version // part of the set in force
	next    *version // verified, and newer than good
	checked time.Time
	problem string    // of the last check; empty: it went well
	since   time.Time // when checks began to fail
}

// isArchive reports whether a path names a bundle rather than files.
func isArchive(path string) bool {
	return strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz")
}

// newBundleSource takes over o, defaults filled in, and reads its keys.
func newBundleSource(o BundleOptions, at, dir string, builtins []string) (*bundleSource, error) {
	o.Poll = cmp.Or(o.Poll, DefaultBundlePoll)
	o.Timeout = cmp.Or(o.Timeout, DefaultBundleTimeout)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultBundleBytes)
	b := &bundleSource{o: o, at: at, builtins: builtins}
	fail := func(format string, a ...any) (*bundleSource, error) {
		return nil, Problems{{File: at, Message: fmt.Sprintf(format, a...)}}
	}
	if (o.Path == "") == (o.URL == "") {
		return fail("needs either a path or a url")
	}
	if o.Poll < 0 || o.Timeout < 0 || o.MaxBytes < 0 {
		return fail("poll %v, timeout %v and size %d must not be negative", o.Poll, o.Timeout, o.MaxBytes)
	}
	var problems Problems
	if b.keys, problems = loadKeys(at, o.Keys); len(problems) > 0 {
		return nil, problems
	}
	if o.URL == "" {
		return b, nil
	}
	if err := checkAddress(&o); err != nil {
		return fail("cannot be used: %v", err)
	}
	b.dir = dir
	var err error
	b.client, err = newClient(&b.o)
	return b, err
}

// where is the source as people may see it.
func (b *bundleSource) where() string {
	if b.client == nil {
		return filepath.ToSlash(b.o.Path)
	}
	return address(b.o.URL)
}

// begin gets the bundle for a first time: what its source has now, else the copy that
// an earlier process kept. Without either the error says why.
func (b *bundleSource) begin(ctx context.Context) error {
	patience := b.o.Timeout
	var old error
	if b.dir != "" {
		if old = b.restore(ctx); b.good != nil {
			patience = min(patience, startPatience)
		}
	}
	short, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the download took longer than %v", patience))
	defer stop()
	err := b.check(short)
	switch {
	case ctx.Err() != nil:
		return cutShort(ctx)
	case err == nil || b.good != nil:
		return nil
	case old != nil:
		return append(asProblems(b.at, err), Problem{File: b.at, Message: fmt.Sprintf("and the copy of an earlier start cannot be used: %v", old)})
	case b.client != nil:
		return append(asProblems(b.at, err), Problem{File: b.at, Message: "and there is no copy of an earlier start"})
	}
	return asProblems(b.at, err)
}

// restore takes the copy that an earlier process kept, verified again.
func (b *bundleSource) restore(ctx context.Context) error {
	raw, note, err := kept(b.dir, &b.o)
	if raw == nil {
		return err
	}
	c, err := readBundle(ctx, b.at, raw, &b.o, b.keys, b.builtins)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.good = &version{content: c, etag: note.ETag, fetched: note.Fetched, confirmed: note.Confirmed, restored: true}
	return nil
}

// check asks the source for what it has now, and verifies it. The error is why it
// cannot be used, or that of ctx.
func (b *bundleSource) check(ctx context.Context) error {
	b.fetching.Lock()
	defer b.fetching.Unlock()
	newest := b.newest()
	v, err := b.get(ctx, newest)
	now := time.Now().UTC()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return err // nobody waits for the answer, which says nothing of the source
	}
	b.checked = now
	if err != nil {
		if b.problem == "" {
			b.since = now
		}
		b.problem = err.Error()
		return err
	}
	b.problem, b.since = "", time.Time{}
	v.confirmed, v.restored = now, false
	switch {
	case b.good != nil && v.content == b.good.content: // also when it went back to that
		b.good, b.next = v, nil
	default:
		b.next = v
	}
	return nil
}

// get returns the source's version: with the content of newest, or of the one in
// force, if it is the same.
func (b *bundleSource) get(ctx context.Context, newest *version) (*version, error) {
	f := &fetched{}
	var err error
	if b.client == nil {
		f.raw, err = readArchive(&b.o)
	} else {
		etag := ""
		if newest != nil {
			etag = newest.etag
		}
		f, err = fetch(ctx, b.client, &b.o, etag)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	good := b.good
	b.mu.Unlock()
	if f.same && newest != nil {
		v := *newest
		return &v, nil
	}
	sum := hexSum(f.raw)
	for _, v := range []*version{newest, good} {
		if v != nil && v.content.digest == sum {
			again := *v
			again.etag = f.etag
			return &again, nil
		}
	}
	c, err := readBundle(ctx, b.at, f.raw, &b.o, b.keys, b.builtins)
	if err != nil {
		return nil, err
	}
	return &version{content: c, etag: f.etag, fetched: time.Now().UTC()}, nil
}

// newest is the version that a new set is made of; nil before begin.
func (b *bundleSource) newest() *version {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		return b.next
	}
	return b.good
}

// inForce notes that a set with this version was put in force.
func (b *bundleSource) inForce(v *version) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil && b.next.content == v.content {
		v, b.next = b.next, nil // it may have been confirmed meanwhile
	} else if b.good != nil && b.good.content == v.content {
		v = b.good
	}
	b.good = v
}

// asProblems makes Problems of any error of a source.
func asProblems(at string, err error) Problems {
	var ps Problems
	if errors.As(err, &ps) {
		return ps
	}
	return Problems{{File: at, Message: "cannot be had: " + err.Error()}}
}
