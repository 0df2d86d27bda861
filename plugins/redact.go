package plugins

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// MinSecretBytes is the shortest value that can be a secret: hiding anything
// shorter would hide parts of ordinary words.
const MinSecretBytes = 8

// MaxSecretBytes is the longest value that can be a secret.
const MaxSecretBytes = 64 << 10

// maxValuesPerName bounds how many values of one secret are remembered while it
// changes; the oldest is forgotten.
const maxValuesPerName = 256

// Redactor replaces the values of secrets in what leaves a guest: each becomes
// "[redacted:NAME]". It knows a value as it is, in base64 (at any place inside a
// longer text), hexadecimal, percent, JSON, HTML and Go escapes, and the longer
// lines of a value that has several. It is a net under accidents and not a wall: whoever
// changes a secret in another way passes it.
//
// A nil or empty Redactor changes nothing and costs nothing. Safe for concurrent
// use; what is added is known to calls that begin after Add returned.
type Redactor struct {
	mu     sync.Mutex // of those that add
	values map[string][]secretValue
	set    atomic.Pointer[needleSet]
}

// Add makes value known under name. Values shorter than MinSecretBytes are not:
// ReadSecret refuses them. Nothing is kept of the slice.
func (r *Redactor) Add(name string, value []byte) {
	if len(value) < MinSecretBytes || r.set.Load().knows(value) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set.Load().knows(value) {
		return
	}
	next := maps.Clone(r.values)
	if next == nil {
		next = map[string][]secretValue{}
	}
	list := append(slices.Clone(next[name]), newSecretValue(string(value)))
	next[name] = list[max(0, len(list)-maxValuesPerName):]
	r.values = next
	r.set.Store(newNeedleSet(next))
}

// needles are what is looked for; nil when there is nothing.
func (r *Redactor) needles() *needleSet {
	if r == nil {
		return nil
	}
	return r.set.Load()
}

// Bytes returns b without secrets: b itself where there are none, else a copy.
func (r *Redactor) Bytes(b []byte) []byte {
	s := r.needles()
	if !s.in(b) {
		return b
	}
	return replace(s, b)
}

// String returns text without secrets.
func (r *Redactor) String(text string) string {
	s := r.needles()
	if !s.inText(text) {
		return text
	}
	return string(replace(s, text))
}

// Finds returns the name of a secret that text holds, false when it holds none.
func (r *Redactor) Finds(text string) (name string, found bool) {
	s := r.needles()
	if s == nil {
		return "", false
	}
	_, _, n := find(s, text, 0)
	if n == nil {
		return "", false
	}
	return n.name, true
}

// Longest is the number of bytes of the longest text that is looked for, 0 when
// there is none: of a text that was cut, this much at the cut may be a part of a
// secret that is not found any more.
func (r *Redactor) Longest() int {
	if s := r.needles(); s != nil {
		return s.longest
	}
	return 0
}
