package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Reading every instruction of a module takes as long as loading its machine code
// from the cache, so what came of it is kept there too: that the module is within
// the bounds, and where its checkpoints are. Only modules that passed have an entry.
// The folder is as private as the machine code needs it.

// scanFolder is the folder of entries within the cache folder.
const scanFolder = "scans"

// scanRules stands for everything that an entry depends on besides the module. The
// number is for changes of what is scanned; the rest is there by itself.
var scanRules = sync.OnceValue(func() string {
	rules := fmt.Sprintln("2", weights, maxUnchecked, weightBulk, weightImport, weightIndirect, bytesPerUnit, smallFunction, callsBetween, callsPerUnit,
		maxFunctions, maxTypes, maxArity, maxGlobals)
	for _, b := range slices.Concat(functionBounds, moduleBounds) {
		rules += fmt.Sprintln(b.what, b.most)
	}
	return rules
})

// scanFile is where the entry of a module is.
func scanFile(cacheDir, moduleSHA256 string) string {
	sum := sha256.Sum256([]byte(scanRules() + moduleSHA256))
	return filepath.Join(cacheDir, scanFolder, hex.EncodeToString(sum[:]))
}

// encodeChecks writes the checkpoints of every function, and the SHA-256 of that.
func encodeChecks(checks [][]checkpoint) []byte {
	b := appendUnsigned(nil, len(checks))
	for _, list := range checks {
		b = appendUnsigned(b, len(list))
		for _, c := range list {
			b = appendUnsigned(b, c.at)
			b = appendUnsigned(b, slices.Index(weights, c.weight))
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeChecks reads what encodeChecks wrote, and returns false for anything else.
func decodeChecks(b []byte) (checks [][]checkpoint, ok bool) {
	n := len(b) - sha256.Size
	if n < 0 {
		return nil, false
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, false
	}
	r := &reader{b: b[:n]}
	checks = make([][]checkpoint, r.count())
	for i := range checks {
		if k := r.count(); k > 0 {
			checks[i] = make([]checkpoint, k)
		}
		for j := range checks[i] {
			at, weight := r.u32(), int(r.byte())
			if weight >= len(weights) {
				return nil, false
			}
			checks[i][j] = checkpoint{int(at), weights[weight]}
		}
	}
	r.done()
	return checks, r.err == nil
}

// scans is the cache as one module sees it.
type scans struct {
	dir    string // of the cache; empty: none
	module string // its SHA-256, as the manifest says
	// verified waits until it is known whether that is so. What is read before may
	// be of another module; nothing is kept before.
	verified func() error
}

// scanned takes what is known of the module from the cache, or measures it and
// keeps what came of it. An entry that cannot be read or written costs time only.
func (p *moduleParser) scanned(cache *scans) error {
	if cache == nil || cache.dir == "" {
		return p.measure()
	}
	file := scanFile(cache.dir, cache.module)
	if b, err := os.ReadFile(file); err == nil {
		if checks, ok := decodeChecks(b); ok && len(checks) == len(p.funcTypes)-len(p.importTypes) {
			p.m.checks, p.m.functions, p.m.counter = checks, len(p.funcTypes), p.globals
			return nil
		}
	}
	if err := p.measure(); err != nil {
		return err
	}
	if err := cache.verified(); err != nil {
		return err
	}
	keepScan(file, encodeChecks(p.m.checks))
	return nil
}

// keepScan writes an entry, whole or not at all.
func keepScan(file string, entry []byte) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err != nil {
		return
	}
	_, err = f.Write(entry)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
