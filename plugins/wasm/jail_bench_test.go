package wasm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/awaken-agents/awaken-host/plugins"
)

// readAll opens, reads and closes a file of 1 KiB, as one call of a guest's library
// comes down to.
func readAll(tb testing.TB, files experimentalsys.FS, name string) {
	f, errno := files.OpenFile(name, experimentalsys.O_RDONLY, 0)
	if errno != 0 {
		tb.Fatal(errno)
	}
	var buf [4096]byte
	if n, errno := f.Read(buf[:]); n != 1024 || errno != 0 {
		tb.Fatal(n, errno)
	}
	if errno := f.Close(); errno != 0 {
		tb.Fatal(errno)
	}
}

// BenchmarkJail takes turns between the jail and wazero's plain DirFS and reports
// the median time of a read of 1 KiB by the one over that by the other: the bare
// file systems, then inside of a guest that is started for each read.
func BenchmarkJail(b *testing.B) {
	dir := b.TempDir()
	write(b, filepath.Join(dir, "sub", "f"), strings.Repeat("x", 1024))
	plain := sysfs.DirFS(dir)
	jail := newJail(b, &Runtime{}, mount{guest: "/w", host: dir})
	for _, name := range []string{"sub/../sub/f", "sub/f"} {
		b.Run(fmt.Sprintf("files/%d", strings.Count(name, "/")), func(b *testing.B) {
			ratio(b, func() { readAll(b, jail, name) }, func() { readAll(b, plain, name) })
		})
	}
	b.Run("guest", func(b *testing.B) {
		with := filesRig(b, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "ro"}})
		without := filesRig(b, Options{}, nil)
		read, none := scriptArgs(b, "read /w/sub/f"), scriptArgs(b, "read /awaken/call.json")
		ratio(b, func() { with.call("files", string(read)) }, func() { without.call("files", string(none)) })
	})
}
