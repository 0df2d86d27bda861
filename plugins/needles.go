package plugins

import (
	"cmp"
	"maps"
	"slices"
)

// needle is one text to be replaced: a form of a secret's value.
type needle struct {
	text string
	name string // of the secret
	mark string // what stands in its place
}

// prefixBytes is how much of a needle decides whether a place is looked at.
const prefixBytes = 4

// needleSet finds many texts in one pass over another. It never changes.
type needleSet struct {
	// bits has the hashes of the needles' first bytes: a place whose bit is not set,
	// which are nearly all of them, costs one look-up however many needles there are.
	bits     [1 << 10]uint64
	byPrefix map[uint32][]needle // the longest first
	values   map[string]struct{}
	longest  int
}

const maxNameInMark = 32

func prefixBit(prefix uint32) (word, bit uint32) {
	h := prefix * 0x9E3779B1 >> 16
	return h >> 6, h & 63
}

// newNeedleSet takes the values of secrets by name.
func newNeedleSet(values map[string][]secretValue) *needleSet {
	s := &needleSet{byPrefix: map[uint32][]needle{}, values: map[string]struct{}{}}
	known := map[string]struct{}{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		mark := "[redacted]"
		if checkSecret(name) == nil {
			// The plugin chose the name. A long one would make much out of little.
			mark = "[redacted:" + name[:min(len(name), maxNameInMark)] + "]"
		}
		for _, value := range values[name] {
			s.values[value.text] = struct{}{}
			for _, form := range value.forms {
				if _, twice := known[form]; twice {
					continue
				}
				known[form] = struct{}{}
				prefix := uint32(form[0]) | uint32(form[1])<<8 | uint32(form[2])<<16 | uint32(form[3])<<24
				word, bit := prefixBit(prefix)
				s.bits[word] |= 1 << bit
				s.byPrefix[prefix] = append(s.byPrefix[prefix], needle{form, name, mark})
				s.longest = max(s.longest, len(form))
			}
		}
	}
	for _, list := range s.byPrefix {
		slices.SortStableFunc(list, func(a, b needle) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return s
}

func (s *needleSet) knows(value []byte) bool {
	if s == nil {
		return false
	}
	_, known := s.values[string(value)]
	return known
}

func (s *needleSet) in(b []byte) bool {
	if s == nil {
		return false
	}
	_, _, n := find(s, b, 0)
	return n != nil
}

func (s *needleSet) inText(text string) bool {
	if s == nil {
		return false
	}
	_, _, n := find(s, text, 0)
	return n != nil
}

// find returns the first needle at or after from, and the longest at that place;
// nil when there is none.
func find[T string | []byte](s *needleSet, text T, from int) (start, end int, _ *needle) {
	if len(text)-from < prefixBytes {
		return 0, 0, nil
	}
	var prefix uint32
	for i := range prefixBytes - 1 {
		prefix = prefix>>8 | uint32(text[from+i])<<24
	}
	for i := from + prefixBytes - 1; i < len(text); i++ {
		prefix = prefix>>8 | uint32(text[i])<<24
		word, bit := prefixBit(prefix)
		if s.bits[word]&(1<<bit) == 0 {
			continue
		}
		start := i - prefixBytes + 1
		list := s.byPrefix[prefix]
		for j := range list {
			if n := len(list[j].text); n <= len(text)-start && string(text[start:start+n]) == list[j].text {
				return start, start + n, &list[j]
			}
		}
	}
	return 0, 0, nil
}

// replace returns text with every needle replaced.
func replace[T string | []byte](s *needleSet, text T) []byte {
	var out []byte
	at, mark := 0, ""
	for {
		start, end, n := find(s, text, at)
		if n == nil {
			break
		}
		out = append(append(out, text[at:start]...), n.mark...)
		at, mark = end, n.mark
	}
	out = append(out, text[at:]...)
	// What stood around a secret can make another one together with the mark. That
	// is no accident, so nothing of the text is kept.
	if s.in(out) {
		if out = []byte(mark); s.in(out) {
			out = nil
		}
	}
	return out
}
