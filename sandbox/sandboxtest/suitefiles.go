package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// put writes a file of the workspace by the channel.
func (b *boundary) put(ctx context.Context, p sandbox.FileParams, data []byte) error {
	return b.send(ctx, sandbox.MethodPut, p, data, nil)
}

// get makes a request and returns the body of the answer.
func (b *boundary) get(ctx context.Context, method string, p sandbox.FileParams) ([]byte, error) {
	s, err := b.ch.Open(ctx, method, p)
	if err != nil {
		return nil, err
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(s, 64<<20))
	if err != nil {
		return nil, err
	}
	return data, s.Result(nil)
}

// list lists a folder of the workspace.
func (b *boundary) list(ctx context.Context, path string) ([]sandbox.FileInfo, error) {
	s, err := b.ch.Open(ctx, sandbox.MethodList, sandbox.FileParams{Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	var files []sandbox.FileInfo
	if err := sandbox.ReadJSON(s, 16<<20, &files); err != nil {
		return nil, err
	}
	return files, s.Result(nil)
}

// filesOf reads and writes the workspace from outside.
func (s Setup) filesOf(t *testing.T) {
	b := s.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	if err := b.put(ctx, sandbox.FileParams{Path: "in/large.bin", Mode: 0o755}, large); err != nil {
		t.Fatalf("putting a file: %v", err)
	}
	if got, err := b.get(ctx, sandbox.MethodGet, sandbox.FileParams{Path: "in/large.bin"}); err != nil || !bytes.Equal(got, large) {
		t.Errorf("getting it back: %d bytes, %v", len(got), err)
	}
	if r := b.shell("test -x in/large.bin && wc -c < in/large.bin"); strings.TrimSpace(r.Stdout) != "3145728" {
		t.Errorf("a command sees %+v", r)
	}
	b.shell("echo by a command > made.txt; ln -s /etc/passwd out; ln -s made.txt in-link")
	files, err := b.list(ctx, ".")
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	for _, want := range []string{"in", "made.txt", "out", "in-link"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in the list %v", want, names)
		}
	}
	for _, path := range []string{"out", "../../etc/passwd", "/etc/passwd", "in/../../x"} {
		if got, err := b.get(ctx, sandbox.MethodGet, sandbox.FileParams{Path: path}); err == nil {
			t.Errorf("getting %s gave %d bytes", path, len(got))
		}
		if err := b.put(ctx, sandbox.FileParams{Path: path, Mode: 0o600}, []byte("x")); err == nil && path != "out" {
			t.Errorf("putting %s was possible", path)
		}
	}
	if c, ok := s.Tier.(sandbox.Carrier); !ok || !c.Carries() {
		if got, err := os.ReadFile(filepath.Join(b.spec.Workspace, "made.txt")); err != nil || string(got) != "by a command\n" {
			t.Errorf("in the folder of the host there is %q, %v", got, err)
		}
	}
	t.Run("carried over", func(t *testing.T) { s.carried(t, b) })
}

// carried takes a workspace from one boundary to another, as a tier that cannot keep
// it does.
func (s Setup) carried(t *testing.T, from *boundary) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	from.shell("rm out; mkdir -m 750 empty; chmod 640 made.txt")
	packed, err := from.get(ctx, sandbox.MethodHarvest, sandbox.FileParams{Path: sandbox.WorkspaceDir})
	if err != nil {
		t.Fatalf("harvesting: %v", err)
	}
	to := s.open(t)
	if err := to.send(ctx, sandbox.MethodSeed, sandbox.FileParams{Path: sandbox.WorkspaceDir}, packed, nil); err != nil {
		t.Fatalf("seeding: %v", err)
	}
	const look = "ls -ld empty made.txt in/large.bin | cut -c1-10; readlink in-link; cat made.txt"
	if a, b := from.shell(look), to.shell(look); a.Stdout != b.Stdout || !strings.Contains(a.Stdout, "-rw-r-----") {
		t.Errorf("it was\n%s\nand is\n%s%s", a.Stdout, b.Stdout, b.Stderr)
	}
	var bad bytes.Buffer
	w := tar.NewWriter(&bad)
	if err := errors.Join(
		w.WriteHeader(&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}),
		w.WriteHeader(&tar.Header{Name: "link/through.txt", Typeflag: tar.TypeReg, Mode: 0o600, Size: 1}),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := to.send(ctx, sandbox.MethodSeed, sandbox.FileParams{Path: sandbox.WorkspaceDir}, bad.Bytes(), nil); err == nil {
		t.Error("an archive that writes through a link was taken")
	}
	if r := to.shell("ls /tmp"); containsText(r.Stdout, "through.txt") {
		t.Error("an archive wrote outside of the workspace")
	}
}
