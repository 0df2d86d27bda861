package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// odd is what was not as it should be. It does without fmt, which makes a module that
// takes long to compile.
func odd(what string, err error) error {
	return errors.Join(errors.New(what), err)
}

// os_use does to /w what programs do with Go's os package, looks at it through the
// read-only /r, and leaves nothing. It answers "fine" or with what was not.
//
//go:wasmexport os_use
func osUse() int32 {
	if err := useFiles(); err != nil {
		output([]byte(err.Error()))
		return 0
	}
	output([]byte("fine"))
	return 0
}

func useFiles() error {
	content := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	if err := os.MkdirAll("/w/a/b/c", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/w/a/b/c/f", content, 0o644); err != nil {
		return err
	}
	for _, name := range []string{"/w/a/b/c/f", "/r/a/b/c/f"} {
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, content) {
			return odd("read "+name, err)
		}
	}
	f, err := os.OpenFile("/w/log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := f.WriteString("line\n"); err != nil {
			return err
		}
	}
	if at, err := f.Seek(-5, io.SeekEnd); err != nil || at != 10 {
		return odd("seek", err)
	}
	if rest, err := io.ReadAll(f); err != nil || string(rest) != "line\n" {
		return odd("read after seek", err)
	}
	if err := errors.Join(f.Sync(), f.Truncate(5), f.Close()); err != nil {
		return err
	}
	if info, err := os.Stat("/w/log"); err != nil || info.Size() != 5 || !info.Mode().IsRegular() || time.Since(info.ModTime()) > time.Hour {
		return odd("stat", err)
	}
	for i := range 500 {
		if err := os.WriteFile("/w/a/n"+string([]byte{byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)}), nil, 0o600); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir("/r/a")
	if err != nil || len(entries) != 501 || entries[0].Name() != "b" || !entries[0].IsDir() || entries[500].Name() != "n499" {
		return odd("readdir", err)
	}
	one, err1 := os.Stat("/w/log")
	two, err2 := os.Stat("/r/log")
	three, err3 := os.Stat("/w/a/n000")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if !os.SameFile(one, two) || os.SameFile(one, three) {
		return errors.New("files are not told apart")
	}
	if err := os.Rename("/w/a/b", "/w/z"); err != nil {
		return err
	}
	stamp := time.Unix(1234567890, 0)
	if err := os.Chtimes("/w/z/c/f", stamp, stamp); err != nil {
		return err
	}
	if info, err := os.Stat("/w/z/c/f"); err != nil || !info.ModTime().Equal(stamp) {
		return odd("chtimes", err)
	}
	for what, err := range map[string]error{
		"write to /r":  os.WriteFile("/r/x", nil, 0o600),
		"remove in /r": os.Remove("/r/log"),
		"symlink":      os.Symlink("/etc/passwd", "/w/l"),
		"link":         os.Link("/w/log", "/w/l"),
		"read outside": func() error { _, err := os.ReadFile("/w/../etc/passwd"); return err }(),
		"not empty":    os.Remove("/w/z"),
	} {
		if err == nil {
			return errors.New(what + " was possible")
		}
	}
	if err := os.WriteFile("/r/x", nil, 0o600); !errors.Is(err, syscall.EROFS) {
		return odd("write to /r", err)
	}
	if _, err := os.Stat("/w/none"); !errors.Is(err, fs.ErrNotExist) {
		return odd("a missing file", err)
	}
	return errors.Join(os.RemoveAll("/w/a"), os.RemoveAll("/w/z"), os.Remove("/w/log"))
}
