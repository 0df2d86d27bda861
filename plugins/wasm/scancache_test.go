package wasm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/awaken-agents/awaken-host/plugins"
)

func TestScanCache(t *testing.T) {
	dir := t.TempDir()
	module := guest(t, "goguest")
	digest := newPlugin(module, plugins.ABIExtism, tool("echo")).Manifest.Module.SHA256
	want, err := parseModule(module)
	if err != nil {
		t.Fatal(err)
	}
	code, err := want.interruptible(module)
	if err != nil {
		t.Fatal(err)
	}
	file := scanFile(dir, digest)
	cache := func(dir string, verified error) *scans {
		return &scans{dir: dir, module: digest, verified: func() error { return verified }}
	}
	again := func(what string) {
		t.Helper()
		m, err := parseScanned(module, cache(dir, nil))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !reflect.DeepEqual(m.checks, want.checks) || m.functions != want.functions || m.counter != want.counter {
			t.Errorf("%s: other checkpoints", what)
		}
		if got, err := m.interruptible(module); err != nil || !bytes.Equal(got, code) {
			t.Errorf("%s: another module is compiled, %v", what, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the entry is not there for this user alone: %v, %v", what, info, err)
		}
	}
	again("empty")
	again("kept")
	entry, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"cut": entry[:len(entry)/2], "emptied": {}, "changed": append([]byte{entry[0] ^ 1}, entry[1:]...), "of another": encodeChecks(nil),
	} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		again(what)
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, entry) {
			t.Errorf("%s: the entry was not mended", what)
		}
	}
	// What is known of a module is not kept under a digest that is not its own.
	forged := t.TempDir()
	if _, err := parseScanned(module, cache(forged, errors.New("another module"))); err == nil {
		t.Error("a module passed under a digest that is not its own")
	}
	if left, _ := filepath.Glob(filepath.Join(forged, "*", "*")); len(left) != 0 {
		t.Errorf("kept under a digest that is not its own: %v", left)
	}
	// A module that is out of bounds is never kept.
	bomb := deepBlocks(20_000).module(1)
	other := t.TempDir()
	if _, err := parseScanned(bomb, cache(other, nil)); err == nil {
		t.Error("a bomb passed")
	}
	if left, _ := filepath.Glob(filepath.Join(other, "*", "*")); len(left) != 0 {
		t.Errorf("a bomb was kept: %v", left)
	}
	// Nor do checkpoints outside of the code do any harm.
	m, err := parseModule(module)
	if err != nil {
		t.Fatal(err)
	}
	m.checks[0] = []checkpoint{{1 << 30, 1}}
	if _, err := m.interruptible(module); err == nil {
		t.Error("a checkpoint outside of its function was taken")
	}
}

func FuzzDecodeChecks(f *testing.F) {
	f.Add(encodeChecks([][]checkpoint{{{3, 1}, {9, 256}}, nil, {{1, 1024}}}))
	f.Add(encodeChecks(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, entry := range [][]byte{b, encodeChecks(nil)} {
			if checks, ok := decodeChecks(entry); ok && !bytes.Equal(encodeChecks(checks), entry) {
				t.Fatalf("%x is read as %v", entry, checks)
			}
		}
	})
}
