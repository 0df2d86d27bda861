package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func ranOnce(t *testing.T) (config string) {
	t.Helper()
	dir := initialised(t)
	config = filepath.Join(dir, "host.toml")
	if _, stderr, code := call(t, "", "run", "-c", config, filepath.Join(dir, "batch.json")); code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	return config
}

// A result that nobody reads is harmless; a backup that nobody reads is none.
func TestBackupThatIsNotRead(t *testing.T) {
	config := ranOnce(t)
	for _, err := range []error{syscall.EPIPE, syscall.ENOSPC} {
		var stderr bytes.Buffer
		code := newApp(nil, failing{err}, &stderr).main([]string{"backup", "-c", config, "-"})
		if code != exitFailed || !strings.Contains(stderr.String(), err.Error()) {
			t.Errorf("%v: exit status %d: %s", err, code, &stderr)
		}
	}
	var stderr bytes.Buffer
	a := newApp(nil, failing{}, &stderr)
	a.onTerminal = true
	if code := a.main([]string{"backup", "-c", config, "-"}); code != exitUsage {
		t.Errorf("to a terminal: exit status %d: %s", code, &stderr)
	}
}

// Whatever goes wrong, a file of the name is a whole backup, and nothing else is
// left.
func TestBackupFile(t *testing.T) {
	config := ranOnce(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "ledger.bak")
	names := func() string {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range list {
			out = append(out, e.Name())
		}
		return strings.Join(out, " ")
	}
	if _, stderr, code := call(t, "", "backup", "-c", config, "--data-dir", filepath.Join(t.TempDir(), "none"), file); code != exitUsage || names() != "" {
		t.Errorf("without a ledger: exit status %d, %q left: %s", code, names(), stderr)
	}
	out, stderr, code := call(t, "", "backup", "-c", config, file, "-o", "json")
	if code != 0 || !strings.HasPrefix(out, `{"file":"`+file+`","bytes":`) || names() != "ledger.bak" {
		t.Fatalf("exit status %d, stdout %q, %q there: %s", code, out, names(), stderr)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, code := call(t, "", "backup", "-c", config, file); code != exitUsage {
		t.Errorf("over a backup: exit status %d", code)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) || names() != "ledger.bak" {
		t.Errorf("the backup was changed, %q there (%v)", names(), err)
	}
}
