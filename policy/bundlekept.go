package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// keptNote stands beside a bundle that is kept for when its server is down.
type keptNote struct {
	Format    int       `json:"format"` // 1
	From      string    `json:"from"`   // SHA-256 of the address, which may hold a secret
	SHA256    string    `json:"sha256"` // of the archive
	ETag      string    `json:"etag,omitempty"`
	Fetched   time.Time `json:"fetched"`
	Confirmed time.Time `json:"confirmed"` // when the server last said that it is current
}

const keptFormat = 1

func keptFiles(dir, name string) (archive, note string) {
	return filepath.Join(dir, name+".tar.gz"), filepath.Join(dir, name+".json")
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// keep writes the archive that is in force under dir. A crash in between leaves an
// archive whose note is of another, which is not used.
func keep(dir string, o *BundleOptions, v *version) error {
	if err := privateFolder(dir); err != nil {
		return err
	}
	archive, _ := keptFiles(dir, o.Name)
	if err := writeWhole(archive, v.content.raw, true); err != nil {
		return err
	}
	return keepNote(dir, o, v)
}

func keepNote(dir string, o *BundleOptions, v *version) error {
	raw, err := json.Marshal(keptNote{
		Format: keptFormat, From: hexSum([]byte(o.URL)), SHA256: v.content.digest,
		ETag: v.etag, Fetched: v.fetched, Confirmed: v.confirmed,
	})
	if err != nil {
		return err
	}
	_, note := keptFiles(dir, o.Name)
	return writeWhole(note, raw, true)
}

// kept reads the archive of an earlier process, nil when there is none for this
// address. What it holds still has to be verified.
func kept(dir string, o *BundleOptions) ([]byte, *keptNote, error) {
	archive, note := keptFiles(dir, o.Name)
	text, err := readRegular(note, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkPrivate(dir); err != nil {
		return nil, nil, err
	}
	var n keptNote
	if err := json.Unmarshal(text, &n); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", note, err)
	}
	if n.Format != keptFormat || n.From != hexSum([]byte(o.URL)) {
		return nil, nil, nil
	}
	raw, err := readRegular(archive, o.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	if hexSum(raw) != n.SHA256 {
		return nil, nil, fmt.Errorf("%s is not what was kept: its digest is another", archive)
	}
	return raw, &n, nil
}

// privateFolder makes dir, readable by this user only, and refuses one that others
// could have written to: an unsigned bundle in it is policy.
func privateFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkPrivate(dir)
}

func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; remove it", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written to by others (mode %04o); remove it, or run chmod go-w on it if only you have written to it", dir, info.Mode().Perm())
	}
	return nil
}

// writeWhole replaces a file at once by one with mode 0600. With sync it is on disk
// before it has the name.
func writeWhole(file string, data []byte, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
