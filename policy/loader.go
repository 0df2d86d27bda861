package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// loadPatience bounds reading, compiling and testing one policy.
const loadPatience = time.Minute

// loader makes sets of what the sources of a policy hold.
type loader struct {
	o       *Options
	files   []string // Paths without those that are bundles
	bundles []*bundleSource
}

var bundleName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// newLoader looks at options alone, and at the files of keys. The error is of type
// Problems.
func newLoader(o *Options) (*loader, error) {
	l := &loader{o: o}
	problems := checkBuiltins(o.Builtins)
	names := map[string]bool{}
	add := func(bo BundleOptions, at string) {
		b, err := newBundleSource(bo, at, o.StateDir, o.Builtins)
		if err != nil {
			problems = append(problems, asProblems(at, err)...)
			return
		}
		l.bundles = append(l.bundles, b)
	}
	for _, p := range o.Paths {
		if !isArchive(p) {
			l.files = append(l.files, p)
			continue
		}
		// Whoever can write host.toml's own files vouches for it, as for a folder.
		p = filepath.Clean(p)
		if at := filepath.ToSlash(p); !names[at] {
			names[at] = true
			add(BundleOptions{Path: p, AllowUnsigned: true}, at)
		}
	}
	for _, bo := range o.Bundles {
		at := "bundle:" + bo.Name
		switch {
		case !bundleName.MatchString(bo.Name):
			problems = append(problems, Problem{Message: fmt.Sprintf("%q cannot be the name of a bundle: write up to 64 characters of a-z 0-9 . _ -, a letter or digit first", clip(bo.Name, 80))})
		case names[at]:
			problems = append(problems, Problem{File: at, Message: "is there twice; give each bundle a name of its own"})
		default:
			names[at] = true
			add(bo, at)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return l, nil
}

// begin gets every bundle for a first time, all at once: one that is slow does not
// make the others wait.
func (l *loader) begin(ctx context.Context) error {
	errs := make([]error, len(l.bundles))
	done := make(chan struct{})
	for i, b := range l.bundles {
		go func() {
			errs[i] = b.begin(ctx)
			done <- struct{}{}
		}()
	}
	for range l.bundles {
		<-done
	}
	if ctx.Err() != nil {
		return cutShort(ctx)
	}
	var problems Problems
	for i, b := range l.bundles {
		if errs[i] != nil {
			problems = append(problems, asProblems(b.at, errs[i])...)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// draft is what the sources hold at one time, before it is compiled.
type draft struct {
	reading
	versions []*version // of the loader's bundles, in their order
	digest   string
}

// gather reads the files and puts the bundles' newest versions beside them. With back
// it takes those that were in force last.
func (l *loader) gather(ctx context.Context, back bool) (*draft, error) {
	c := &draft{}
	if len(l.files) > 0 || len(l.bundles) == 0 {
		found, err := readSources(ctx, l.files, l.o.TestOnReload || l.o.tests)
		if err != nil {
			return nil, err
		}
		c.reading = *found
	}
	var at []string
	var contents []*content
	for _, b := range l.bundles {
		v := b.newest()
		if back {
			b.mu.Lock()
			if b.good != nil {
				v = b.good
			}
			b.mu.Unlock()
		}
		c.versions = append(c.versions, v)
		at, contents = append(at, b.at), append(contents, v.content)
		c.policy = append(c.policy, v.content.policy...)
		c.tests = append(c.tests, v.content.tests...)
		c.unread = append(c.unread, v.content.unread...)
	}
	if problems := overlap(at, contents); len(problems) > 0 {
		return nil, problems
	}
	size := 0
	for _, s := range c.policy {
		size += len(s.raw)
	}
	switch {
	case size > maxTotalBytes:
		return nil, Problems{{File: strings.Join(at, ", "), Message: fmt.Sprintf("does not fit: the policy is larger than %d MiB in all; take data out of it", maxTotalBytes>>20)}}
	case !slices.ContainsFunc(c.policy, func(s source) bool { return s.rego() }):
		return nil, Problems{{File: strings.Join(append(slices.Clone(l.files), at...), ", "), Message: "has no .rego file, only data; nothing would be allowed"}}
	}
	inOrder := func(a, b source) int { return strings.Compare(a.name+"\x00"+a.file, b.name+"\x00"+b.file) }
	slices.SortFunc(c.policy, inOrder)
	slices.SortFunc(c.tests, inOrder)
	h := sha256.New()
	for _, part := range [][]source{c.policy, c.tests} {
		h.Write([]byte(revision(part, l.o.Builtins)))
	}
	c.digest = hex.EncodeToString(h.Sum(nil))
	return c, nil
}

// build compiles a candidate and, where it is asked for, runs its tests.
func (l *loader) build(ctx context.Context, c *draft) (*set, error) {
	began := time.Now()
	ctx, stop := context.WithTimeoutCause(ctx, loadPatience, fmt.Errorf("compiling and testing it took longer than %v", loadPatience))
	defer stop()
	s, err := compile(ctx, l.o, baseModules(), c.policy)
	if err != nil {
		return nil, err
	}
	s.unread, s.tests, s.versions, s.digest = c.unread, c.tests, c.versions, c.digest
	if l.o.TestOnReload {
		if err := s.passes(ctx, l.o); err != nil {
			return nil, err
		}
		s.tested = len(s.tests) > 0
	}
	s.took = time.Since(began)
	return s, nil
}

// load reads, compiles and prepares the policy that the options name.
func load(ctx context.Context, o *Options) (*set, error) {
	l, err := newLoader(o)
	if err != nil {
		return nil, err
	}
	s, err := l.first(ctx)
	if err == nil {
		s.unread = append(l.stale(s), s.unread...)
	}
	return s, err
}

// first makes a set at start. Where the newest bundles give none, those of an earlier
// process do, so that a bad publication does not keep a host from starting again.
func (l *loader) first(ctx context.Context) (*set, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	s, err := l.make(ctx, false)
	if err != nil {
		if ctx.Err() != nil || !slices.ContainsFunc(l.bundles, (*bundleSource).canGoBack) {
			return nil, err
		}
		var backErr error
		if s, backErr = l.make(ctx, true); backErr != nil {
			return nil, err
		}
		s.refused = err
	}
	return s, nil
}

// stale warns of what is not as new as its source is.
func (l *loader) stale(s *set) Problems {
	var warnings Problems
	for _, b := range l.bundles {
		if st := b.status(); st.Problem != "" {
			warnings = append(warnings, Problem{File: b.at, Message: fmt.Sprintf(
				"cannot be checked: %s; the copy of %s is used", st.Problem, b.newest().confirmed.Format(time.RFC3339))})
		}
	}
	if s.refused != nil {
		warnings = append(warnings, Problem{Message: fmt.Sprintf("the newest bundles are not used: %v; those kept from before are", s.refused)})
	}
	return warnings
}

func (l *loader) make(ctx context.Context, back bool) (*set, error) {
	c, err := l.gather(ctx, back)
	if err != nil {
		return nil, err
	}
	return l.build(ctx, c)
}

// canGoBack reports whether there is an older version than the newest.
func (b *bundleSource) canGoBack() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.good != nil && b.next != nil
}

// passes runs the tests beside the policy. The error is of type Problems and names
// those that did not pass, or is that of ctx.
func (s *set) passes(ctx context.Context, o *Options) error {
	r, err := runTests(ctx, s, s.tests, TestOptions{Policy: *o})
	if err != nil {
		return err
	}
	var problems Problems
	for _, t := range r.Tests {
		switch t.Outcome {
		case TestFailed:
			problems = append(problems, Problem{File: t.File, Line: t.Line, Message: fmt.Sprintf("test %s fails; a policy is put in force when its tests pass (test_on_reload under [policy] in host.toml)", t.Name)})
		case TestErrored:
			problems = append(problems, Problem{File: t.File, Line: t.Line, Message: fmt.Sprintf("test %s cannot be evaluated: %s", t.Name, t.Error)})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}
