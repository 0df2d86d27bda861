package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandLine runs the program as a tier, or a person, does.
func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "awaken-hand")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version=v1.2.3", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	code := filepath.Join(dir, "code")
	if err := os.Mkdir(code, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           string
		stdin          string
		status         int
		stdout, stderr string // what they hold; empty: they are empty
	}{
		{"version", "", 0, "v1.2.3\n", ""},
		{"--version", "", 0, "v1.2.3\n", ""},
		{"help", "", 0, "usage: awaken-hand", ""},
		{"", "", 2, "", "usage: awaken-hand"},
		{"dance", "", 2, "", `unknown command "dance"`},
		{"install", "", 2, "", "usage: awaken-hand"},
		{"install " + filepath.Join(dir, "missing", "hand"), "", 1, "", "no such file or directory"},
		{"install " + filepath.Join(dir, "copy"), "", 0, "", ""},
		{"compile", "", 2, "", "usage: awaken-hand"},
		{"compile " + code, "no JSON", 1, "", "awaken-hand: "},
		{"compile " + code, `{"manifest":{"module":{"abi":"extism"}},"module":"bm8gbW9kdWxl"}`, 1, "", "awaken-hand: "},
		{"serve", "GET / HTTP/1.1\r\nHost: awaken\r\n\r\n", 1, "", "does not speak the protocol"},
		{"serve", "\x00\x00\x00", 1, "", "unexpected EOF"},
		{"serve --loud", "", 1, "", "loud"},
	} {
		t.Run(strings.ReplaceAll(c.args, dir, ""), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, strings.Fields(c.args)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("%v, want status %d\n%s", err, c.status, &stderr)
			}
			for name, have := range map[string][2]string{"output": {stdout.String(), c.stdout}, "error": {stderr.String(), c.stderr}} {
				if got, want := have[0], have[1]; !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("standard %s is %q, want %q", name, got, want)
				}
			}
		})
	}
	if left, err := os.ReadDir(code); err != nil || len(left) > 0 {
		t.Errorf("compiling nothing leaves %v, %v", left, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "copy")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}
