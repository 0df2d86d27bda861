package policy

import (
	"path/filepath"
	"sync"
	"time"
)

// Status is what is in force, where it came from, and what keeps something newer from
// being in force.
type Status struct {
	Revision string         `json:"revision"` // of the set in force
	Loaded   time.Time      `json:"loaded"`   // when it was put in force
	Checked  time.Time      `json:"checked"`  // when the sources were last looked at
	Tested   bool           `json:"tested"`   // its tests ran and passed; see Options.TestOnReload
	Modules  int            `json:"modules"`
	Data     int            `json:"data"` // files
	Problem  string         `json:"problem,omitempty"`
	Since    *time.Time     `json:"problem_since,omitempty"`
	Sources  []SourceStatus `json:"sources"`
}

// SourceStatus is one path, or one bundle.
type SourceStatus struct {
	Kind string `json:"kind"` // "files" or "bundle"
	Name string `json:"name"` // a path, or "bundle:" and the name in host.toml
	From string `json:"from"` // a path, or an address without what may be secret in it

	// Of bundles, as in force.
	Revision  string     `json:"revision,omitempty"` // of .manifest
	SHA256    string     `json:"sha256,omitempty"`   // of the archive
	Roots     []string   `json:"roots,omitempty"`
	Signer    string     `json:"signer,omitempty"` // id of the key; absent: unsigned
	ETag      string     `json:"etag,omitempty"`
	Fetched   *time.Time `json:"fetched,omitempty"`
	Confirmed *time.Time `json:"confirmed,omitempty"` // when its source last said that it is current
	Restored  bool       `json:"restored,omitempty"`  // the copy kept by an earlier process

	// Waiting is the revision of a newer version that was downloaded and verified and
	// is not in force; Status.Problem says why. "-" for one without a revision.
	Waiting string     `json:"waiting,omitempty"`
	Checked *time.Time `json:"checked,omitempty"`
	Problem string     `json:"problem,omitempty"` // of the last check
	Stale   *time.Time `json:"stale_since,omitempty"`
}

// Healthy reports whether what the sources hold now is what is in force, as far as is
// known.
func (s *Status) Healthy() bool {
	if s.Problem != "" {
		return false
	}
	for _, src := range s.Sources {
		if src.Problem != "" {
			return false
		}
	}
	return true
}

// Status tells what is in force. The caller may keep it.
func (g *Gate) Status() *Status {
	s := g.current.Load()
	st := &Status{Revision: s.revision, Tested: s.tested, Modules: len(s.modules), Data: len(s.data), Sources: []SourceStatus{}}
	g.standing.fill(st)
	for _, p := range g.loader.files {
		p = filepath.ToSlash(p)
		st.Sources = append(st.Sources, SourceStatus{Kind: "files", Name: p, From: p})
	}
	for _, b := range g.loader.bundles {
		st.Sources = append(st.Sources, b.status())
	}
	return st
}

func (b *bundleSource) status() SourceStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := SourceStatus{Kind: "bundle", Name: b.at, From: b.where(), Checked: stampOf(b.checked), Problem: b.problem}
	if v := b.good; v != nil {
		c := v.content
		s.Revision, s.SHA256, s.Roots, s.Signer = c.revision, c.digest, c.roots, c.signer
		s.ETag, s.Fetched, s.Confirmed, s.Restored = v.etag, stampOf(v.fetched), stampOf(v.confirmed), v.restored
		if b.problem != "" {
			s.Stale = s.Confirmed
		}
	}
	if b.next != nil {
		if s.Waiting = b.next.content.revision; s.Waiting == "" {
			s.Waiting = "-"
		}
	}
	return s
}

// stampOf is nil for the zero time.
func stampOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Truncate(time.Second)
	return &t
}

// standing is what a gate remembers about its reloads.
type standing struct {
	mu      sync.Mutex
	loaded  time.Time
	checked time.Time
	problem string
	since   time.Time
	bad     string            // digest of the last candidate that cannot be used
	lines   map[string]string // source to the last problem that was logged of it
	file    statusFile
}

func (s *standing) inForce(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.checked, s.problem, s.since, s.bad = now, now, "", time.Time{}, ""
}

// well clears the problem and reports whether there was one.
func (s *standing) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.problem != ""
	s.problem, s.since, s.bad = "", time.Time{}, ""
	return had
}

// fails notes a problem and reports whether it is another than before.
func (s *standing) fails(err error, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == "" {
		s.since = now
	}
	another := s.problem != err.Error()
	s.problem, s.checked = err.Error(), now
	return another
}

func (s *standing) refuse(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = digest
}

// refusedBefore reports whether this candidate is known to be bad.
func (s *standing) refusedBefore(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad == digest
}

func (s *standing) looked(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = now
}

// said replaces the last problem that was logged of a source and returns it.
func (s *standing) said(source, problem string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = map[string]string{}
	}
	before := s.lines[source]
	s.lines[source] = problem
	return before
}

func (s *standing) fill(st *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Loaded, st.Checked = s.loaded.Truncate(time.Second), s.checked.Truncate(time.Second)
	st.Problem, st.Since = s.problem, stampOf(s.since)
}
