package wasm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// How many files and folders guests may have open: one instance, and all of one
// Runtime together. The descriptors are the host's.
const (
	maxOpenFiles    = 64
	maxOpenFilesAll = 2048
)

// maxListed is how many entries the folders of an instance may have listed that are
// open, beside the one that is being listed: wazero keeps what was listed, each entry
// in 50 bytes and its name, until the folder is closed or listed anew.
const maxListed = 1 << 18

// mount is a host folder that an instance sees at a guest path.
type mount struct {
	guest    string
	host     string
	write    bool
	coarse   bool  // times of files are
	maxBytes int64 // what the folder may hold; 0: not bounded
	maxFiles int64 // files and folders below it; 0: not bounded
}

// mountsOf is what a call of p sees, in order of the guest paths: what the plugin
// may use, narrowed by the gate's grant. A mode that is not known gives nothing.
func mountsOf(p *plugins.Plugin, grant *batch.Grant) []mount {
	var list []mount
	for _, guest := range sortedKeys(p.Effective.Paths) {
		mode := p.Effective.Paths[guest]
		if grant != nil && grant.Paths != nil {
			narrowed, ok := grant.Paths[guest]
			if !ok || mode == "ro" && narrowed == "rw" {
				narrowed = mode
			}
			if mode = narrowed; !ok {
				continue
			}
		}
		if p.Grant == nil || mode != "ro" && mode != "rw" {
			continue
		}
		give, ok := p.Grant.Paths[guest]
		if !ok || give.Host == "" {
			continue
		}
		list = append(list, mount{
			guest: guest, host: give.Host, write: mode == "rw", coarse: p.Clock == plugins.ClockCoarse,
			maxBytes: int64(give.MaxMiB) << 20, maxFiles: int64(give.MaxFiles),
		})
	}
	return list
}

// checkFolders opens every granted folder once, so that one that is missing is
// found when the plugin is loaded.
func checkFolders(p *plugins.Plugin) error {
	var errs []error
	for _, m := range mountsOf(p, nil) {
		root, err := os.OpenRoot(m.host)
		if err == nil {
			var list *os.File
			if list, err = root.Open("."); err == nil {
				_, err = list.Readdirnames(1)
				_ = list.Close()
				if errors.Is(err, fs.ErrPermission) || !errors.Is(err, fs.ErrInvalid) && os.IsPermission(err) {
					err = fs.ErrPermission
				} else {
					err = nil // an empty folder answers with io.EOF
				}
			}
			_ = root.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: [plugin.grant].paths: %q stands for the folder %s, which cannot be opened: %s; %s",
				p.Manifest.ID, m.guest, m.host, reasonOf(err), folderRemedy(m.host, err)))
		}
	}
	return errors.Join(errs...)
}

// reasonOf is err without the path, which is a host's and not for guests or models.
func reasonOf(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func folderRemedy(host string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "make it (mkdir -p " + host + ") or name another folder"
	case errors.Is(err, fs.ErrPermission):
		return "let the user of this process read and enter it, or name another folder"
	}
	return "name a folder"
}

// mountSet is the open folders of one instance. Its methods may be called by the
// guest's goroutine and by the one that closes the instance.
type mountSet struct {
	jails  []*jail
	room   *atomic.Int64 // open files of the whole Runtime
	notify func(guestPath, reason string)

	mu     sync.Mutex
	ctx    context.Context        // of the current call
	notes  []string               // what was refused during it
	count  int                    // open files, and those that are being opened
	listed int                    // entries of those that are folders
	files  map[*jailFile]struct{} // the open ones; nil once the set is closed
}

// openMounts opens the folders of list. The set is closed by the caller.
func (r *Runtime) openMounts(list []mount) (*mountSet, error) {
	s := &mountSet{room: &r.openFiles, ctx: context.Background(), files: map[*jailFile]struct{}{}}
	for _, m := range list {
		root, err := os.OpenRoot(m.host)
		if err != nil {
			s.close()
			r.log.Warn("a granted folder cannot be opened", "guest_path", m.guest, "folder", m.host, "error", err, "remedy", folderRemedy(m.host, err))
			return nil, fmt.Errorf("the folder granted at %s cannot be opened: %s", m.guest, reasonOf(err))
		}
		j := &jail{set: s, mount: m, root: root}
		s.jails = append(s.jails, j)
		info, err := root.Stat(".")
		if err == nil {
			j.folder, err = r.folders.take(info)
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("the folder granted at %s cannot be read: %s", m.guest, reasonOf(err))
		}
	}
	return s, nil
}

// addTo returns config with the folders in it.
func (s *mountSet) addTo(config wazero.FSConfig) wazero.FSConfig {
	for _, j := range s.jails {
		if with, ok := config.(sysfs.FSConfig); ok {
			config = with.WithSysFSMount(j, j.guest)
		}
	}
	return config
}

// begin makes the set ready for a call, under ctx; notify hears once of each thing
// that is refused.
func (s *mountSet) begin(ctx context.Context, notify func(guestPath, reason string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.notify, s.notes = ctx, notify, nil
}

// maxNotes bounds what one call can have said about it.
const maxNotes = 4

// note remembers why the guest got an error that does not say it by itself. A
// guest cannot be told: WASI has a number and no text.
func (s *mountSet) note(guestPath, reason string) {
	guestPath = printable(guestPath, 200)
	text := guestPath + ": " + reason
	s.mu.Lock()
	said := len(s.notes) >= maxNotes || slices.Contains(s.notes, text)
	if !said {
		s.notes = append(s.notes, text)
	}
	notify := s.notify
	s.mu.Unlock()
	if !said && notify != nil {
		notify(guestPath, reason)
	}
}

// refusals is what the current call was refused, empty for nothing.
func (s *mountSet) refusals() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "; ")
}

func (s *mountSet) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// reserve takes a place for one more open file, false when there are too many. The
// place goes back with drop.
func (s *mountSet) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= maxOpenFiles {
		return false
	}
	if s.room.Add(1) > maxOpenFilesAll {
		s.room.Add(-1)
		return false
	}
	s.count++
	return true
}

// keep remembers f, to close it with the set; false when that is closed already.
func (s *mountSet) keep(f *jailFile) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		return false
	}
	s.files[f] = struct{}{}
	return true
}

func (s *mountSet) drop(f *jailFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
	s.listed -= f.listed
	f.listed = 0
	s.count--
	s.room.Add(-1)
}

// list counts n more entries that were listed of f.
func (s *mountSet) list(f *jailFile, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files != nil {
		f.listed += n
		s.listed += n
	}
}

// unlist forgets what was listed of f.
func (s *mountSet) unlist(f *jailFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed -= f.listed
	f.listed = 0
}

// mayList reports whether f may be listed further.
func (s *mountSet) mayList(f *jailFile) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed-f.listed <= maxListed
}

// close closes the folders and whatever of them is still open. Calling it again
// does nothing.
func (s *mountSet) close() {
	s.mu.Lock()
	jails := s.jails
	s.jails = nil
	left := make([]*jailFile, 0, len(s.files))
	for f := range s.files {
		left = append(left, f)
	}
	s.files = nil
	s.mu.Unlock()
	for _, f := range left {
		f.Close()
	}
	for _, j := range jails {
		_ = j.root.Close()
		if j.folder != nil {
			j.folder.release()
		}
	}
}
