package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// revision identifies what decides: every source by name and content, and the
// built-ins let in. Names are relative, so that moving a policy keeps it.
func revision(sources []source, builtins []string) string {
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, s := range sources {
		add([]byte(s.name))
		add(s.raw)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(builtins)))
	for _, b := range sorted {
		add([]byte(b))
	}
	return hex.EncodeToString(h.Sum(nil))
}
