package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// identityFile says who a folder of Environments is.
const identityFile = "host.json"

// identity is a host's name towards engines. It is bound to the folder, so that a copy
// of the folder is another host, and never removes what the first one runs.
type identity struct {
	ID      string `json:"id"`
	Folder  string `json:"folder"` // absolute
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Machine string `json:"machine,omitempty"` // of /etc/machine-id
}

// is reports whether two identities are of one folder. Devices are numbered anew at a
// boot, and a folder may be moved: one of the two has to fit, and the inode always.
func (i identity) is(o identity) bool {
	return i.Inode == o.Inode && i.Machine == o.Machine && (i.Device == o.Device || i.Folder == o.Folder)
}

// openIdentity returns the id of the host that dir belongs to, a new one where dir is
// new or is a copy of another.
func openIdentity(dir string) (id string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	now := identity{Folder: dir, Machine: machineID()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		now.Device, now.Inode = uint64(st.Dev), uint64(st.Ino) //nolint:unconvert // the types differ between systems
	}
	file := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(file)
	if err == nil {
		var was identity
		if err := json.Unmarshal(raw, &was); err != nil || was.ID == "" {
			return "", fmt.Errorf("%s cannot be read (%w): remove it, and with it the hold on what earlier sandboxes left running", file, errors.Join(err, errors.New("it names no id")))
		}
		if was.is(now) {
			return was.ID, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	now.ID = randomID("h")
	raw, err = json.Marshal(now)
	if err != nil {
		return "", err
	}
	return now.ID, writeFile(file, raw)
}

func machineID() string {
	raw, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// randomID is fit for the names of containers and Pods.
func randomID(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:20]) }

// writeFile replaces a file: after a crash it is the old or the new one, and once
// writeFile has returned, the new one. The folder is synced, too.
func writeFile(file string, data []byte) error {
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
