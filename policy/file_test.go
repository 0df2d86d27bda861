package policy

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// What is no file must not be waited for, whatever its name and however it is
// reached.
func TestWhatIsNoFile(t *testing.T) {
	make := map[string]func(file string) error{
		"a named pipe": func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"a socket": func(file string) error {
			l, err := net.Listen("unix", file)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
		"a device": func(file string) error { return os.Symlink("/dev/zero", file) },
	}
	for kind, create := range make {
		for _, name := range []string{"x.rego", "data.json", "d.yaml"} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				dir, err := os.MkdirTemp("", "p") // names of sockets are short
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				if err := os.WriteFile(filepath.Join(dir, "policy.rego"), []byte("package awaken.policy\n"+allowAll), 0o600); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(dir, name)
				if err := create(file); err != nil {
					t.Fatal(err)
				}
				o := options(t, allowAll)
				for _, paths := range [][]string{{dir}, {filepath.Join(dir, "policy.rego"), file}} {
					o.Paths = paths
					if got := problemsOf(t, o).Error(); !strings.Contains(got, name+": is "+kind+", not a file") {
						t.Errorf("got %s", got)
					}
				}
				// What the name stands for may have changed since it was looked at.
				began := time.Now()
				if raw, err := readRegular(file, 10); err == nil || raw != nil || time.Since(began) > readPatience {
					t.Errorf("read %q, %v after %v", raw, err, time.Since(began))
				}
			})
		}
	}
	// Beside the policy, under a name that is not read, it does no harm.
	o := options(t, allowAll)
	if err := syscall.Mkfifo(filepath.Join(o.Paths[0], "wakeup"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(o.Paths[0], ".x.rego"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, o)
}

func TestSizesAreBounded(t *testing.T) {
	o := options(t, allowAll)
	dir := o.Paths[0]
	write := func(name string, size int) {
		t.Helper()
		text := `{"` + strings.TrimSuffix(name, ".json") + `": "` + strings.Repeat("x", size-len(name)-3) + `"}`
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text[:size-2]+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.json", maxFileBytes)
	open(t, o)
	write("a.json", maxFileBytes+1)
	if got := problemsOf(t, o).Error(); !strings.Contains(got, "a.json: is larger than 4 MiB; split it") {
		t.Errorf("got %s", got)
	}
	for i := range maxTotalBytes / maxFileBytes {
		write(fmt.Sprintf("a%02d.json", i), maxFileBytes)
	}
	write("a.json", 100)
	if got := problemsOf(t, o).Error(); !strings.Contains(got, "the policy is larger than 64 MiB in all") {
		t.Errorf("got %s", got)
	}
}

// Folders linked into each other could be walked for ever.
func TestWalksEnd(t *testing.T) {
	for name, root := range map[string]string{"in sight": "", "hidden": ".h"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, allowAll)
			dir := filepath.Join(o.Paths[0], root)
			for i := range 20 { // each twice in the one before
				below := filepath.Join(dir, fmt.Sprintf("d%d", i+1))
				if err := os.MkdirAll(below, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 19 {
				for _, link := range []string{"l", "m"} {
					if err := os.Symlink(filepath.Join(dir, fmt.Sprintf("d%d", i+2)), filepath.Join(dir, fmt.Sprintf("d%d", i+1), link)); err != nil {
						t.Fatal(err)
					}
				}
			}
			began := time.Now()
			if got := problemsOf(t, o).Error(); !strings.Contains(got, "more than 20000 files and folders") {
				t.Errorf("got %s", got)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	o := options(t, allowAll)
	for _, link := range []string{"a", "b", ".c", ".d"} {
		if err := os.Symlink(o.Paths[0], filepath.Join(o.Paths[0], link)); err != nil {
			t.Fatal(err)
		}
	}
	if ps := problemsOf(t, o); len(ps) != 2 || !strings.Contains(ps[0].Message, "leads back") {
		t.Errorf("got %v", ps)
	}
}

// A rule to block in a file that is not read would be lost without a word.
func TestFilesThatLookLikePolicy(t *testing.T) {
	const block = "package awaken.policy\nblock contains \"x\""
	for name, says := range map[string]string{
		"B.REGO":       "endings count in lower case only; rename it to B.rego",
		"b.Rego":       "rename it to b.rego",
		"d.JSON":       "rename it to d.json",
		"sub/Data.Yml": "rename it to Data.yml",
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, allowAll)
			o.Paths = []string{folder(t, map[string]string{"policy.rego": "package awaken.policy\n" + allowAll, name: block})}
			if got := problemsOf(t, o).Error(); !strings.Contains(got, filepath.Base(name)+": is not read: "+says) && !strings.Contains(got, says) {
				t.Errorf("got %s", got)
			}
		})
	}
	for name, says := range map[string]string{
		".hid.rego":        "since it is hidden",
		".HID.REGO":        "since it is hidden",
		".data.json":       "since it is hidden",
		".old/sub/b.rego":  "since it is hidden",
		"b.rego.txt":       "its name does not end in .rego",
		"b.rego ":          "its name does not end in .rego",
		"b.rego.bak":       "its name does not end in .rego",
		"b.rego~":          "",
		"README.md":        "",
		".policy.rego.swp": "",
		".git/x/b.rego":    "",
		"b_test.rego":      "",
		"B_TEST.REGO":      "",
		".b_test.rego":     "",
		"sub.rego/x.md":    "",
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, allowAll)
			o.Paths = []string{folder(t, map[string]string{"policy.rego": "package awaken.policy\n" + allowAll, name: block})}
			var l logs
			o.Logger = l.logger()
			r, err := Check(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			open(t, o)
			if says == "" {
				if len(r.Warnings) > 0 || strings.Contains(l.String(), "WARN") {
					t.Errorf("got %v and %s", r.Warnings, l.String())
				}
				return
			}
			if len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0].File, name) || !strings.Contains(r.Warnings[0].Message, says) {
				t.Errorf("check says %v", r.Warnings)
			}
			if !strings.Contains(l.String(), "level=WARN") || !strings.Contains(l.String(), says) {
				t.Errorf("the log says %s", l.String())
			}
		})
	}
}

// A mounted ConfigMap is a hidden folder of files and links to them in sight.
func TestLinksToHiddenFiles(t *testing.T) {
	dir := folder(t, map[string]string{"..2025/policy.rego": "package awaken.policy\n" + allowAll})
	for link, to := range map[string]string{"..data": "..2025", "policy.rego": "..data/policy.rego"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := options(t, allowAll)
	o.Paths = []string{dir}
	r, err := Check(context.Background(), o)
	if err != nil || len(r.Warnings) > 0 || len(r.Modules) != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if d := decide(t, open(t, o), query("read", `{}`)); d.Outcome != batch.OutcomeAllow {
		t.Errorf("got %+v", d.Reasons)
	}
}

func TestEncodings(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"b.rego":   {"\ufeffpackage awaken.policy", "starts with a byte order mark"},
		"c.rego":   {"\xff\xfep\x00", "is not UTF-8"},
		"d.json":   {"\ufeff{}", "starts with a byte order mark"},
		"e.json":   {"{\"a\": \"\xff\"}", "is not UTF-8"},
		"f.yaml":   {"a: \xc3", "is not UTF-8"},
		"g/h.yaml": {"\xfe\xff\x00a", "is not UTF-8"},
	} {
		o := options(t, allowAll)
		o.Paths = []string{folder(t, map[string]string{"policy.rego": "package awaken.policy\n" + allowAll, name: tt.text})}
		if got := problemsOf(t, o).Error(); !strings.Contains(got, name+": "+tt.says) {
			t.Errorf("got %s", got)
		}
	}
}
