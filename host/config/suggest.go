package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// suggest is the remedy for an unknown key: the known key of the table that looks
// most like it, else the table that has a key of this name, else what is known.
func (r *reader) suggest(t *table, key string) string {
	known := slices.Clone(t.known)
	slices.Sort(known)
	known = slices.Compact(known)
	if s := closest(key, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	for _, other := range r.tables {
		if other.free || other == t || !slices.Contains(other.known, key) {
			continue
		}
		if other.path == "" {
			return fmt.Sprintf("%q belongs at the top of the file, before the first table", key)
		}
		return fmt.Sprintf("did you mean the %q of [%s]?", key, indices.ReplaceAllString(other.path, ""))
	}
	return "remove it; known here are " + strings.Join(known, ", ")
}

// closest returns the candidate within typing distance of key, or "".
func closest(key string, candidates []string) string {
	key = strings.ReplaceAll(strings.ToLower(clip(key)), "-", "_")
	best, least := "", 1+len(key)/3
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(key, c); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	if least >= max(len(key), len(best)) { // nothing in common
		return ""
	}
	return best
}
