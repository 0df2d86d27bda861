package standard

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// embedded is what Init writes besides the starter policy and the keys. The
// plugin's module is built from starter.c beside it; a test rebuilds it byte for
// byte.
//
//go:embed scaffold starter
var embedded embed.FS

// InitReport says what Init made.
type InitReport struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"` // relative to Dir, sorted
	KeyID string   `json:"key_id"`
	Next  []string `json:"next"` // command lines to try in a POSIX shell, in order
}

// Init makes a working host in dir: a host.toml, a starter policy with its tests,
// a fresh signing key, a small plugin signed with it, and messages to run. A file
// that is there already is an error that names it, and then nothing is written.
func Init(dir string) (*InitReport, error) {
	files, err := initFiles()
	if err != nil {
		return nil, err
	}
	names := []string{publicKey, secretKey}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Lstat(path); err == nil {
			return nil, setupError{fmt.Errorf("%s is there already: choose an empty folder, or remove it", path)}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, setupError{err}
		}
	}
	for _, name := range names {
		if data, ok := files[name]; ok {
			if err := writeNew(filepath.Join(dir, filepath.FromSlash(name)), data); err != nil {
				return nil, err
			}
		}
	}
	key := filepath.Join(dir, filepath.FromSlash(secretKey))
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		return nil, err
	}
	id, err := plugins.GenerateKey(filepath.Join(dir, filepath.FromSlash(publicKey)), key, "")
	if err != nil {
		return nil, err
	}
	if _, err := plugins.Sign(filepath.Join(dir, "plugins", "hello"), key, "", plugins.SignOptions{}); err != nil {
		return nil, err
	}
	names = append(names, "plugins/hello/"+plugins.SignatureFile)
	slices.Sort(names)
	host := filepath.Join(dir, "host.toml")
	return &InitReport{Dir: dir, Files: names, KeyID: id, Next: []string{
		"awaken-host run -c " + ShellWord(host) + " " + ShellWord(filepath.Join(dir, "batch.json")),
		"awaken-host tools list -c " + ShellWord(host),
		"awaken-host policy check -c " + ShellWord(host),
	}}, nil
}

const (
	publicKey = "keys/tools.pub"
	secretKey = "keys/tools.key" //nolint:gosec // the name of a file, not what is in it
)

// initFiles collects what Init writes, by path relative to the folder.
func initFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(from fs.FS, root, to string, skip ...string) error {
		return fs.WalkDir(from, root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name := strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
			if slices.Contains(skip, name) {
				return nil
			}
			data, err := fs.ReadFile(from, p)
			if err != nil {
				return err
			}
			name = strings.TrimSuffix(name, ".in")
			if name == "gitignore" {
				name = ".gitignore"
			}
			files[to+name] = data
			return nil
		})
	}
	err := errors.Join(
		add(embedded, "scaffold", ""),
		add(embedded, "starter", "plugins/hello/", "build.sh", "batch.json", "note.json"),
		add(policy.Starter(), ".", "policy/"),
	)
	for _, name := range []string{"batch.json", "note.json"} {
		data, rerr := fs.ReadFile(embedded, "starter/"+name)
		files[name], err = data, errors.Join(err, rerr)
	}
	return files, err
}

func writeNew(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
