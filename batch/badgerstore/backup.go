package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Backup writes everything that the store holds to w, as of one moment, while it
// goes on being used. Every record and file is verified as far as its checksum
// goes. What was written is a backup only when Backup returns nil.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	leave, err := s.enter(ctx, "backup")
	if err != nil {
		return err
	}
	defer leave()
	// Held before the moment is chosen, so that every file of it stays.
	defer s.files.hold()()
	return s.viewOnce("backup", func(v *view) error {
		out := newStreamWriter(w, backupStream, time.Now())
		var last digest
		err := v.scanRaw(ctx, nil, func(k, rec []byte) (bool, error) {
			out.record(k, rec)
			if d, ok := userOf(k); ok && d != last {
				last = d
				if err := s.copyFile(out, d); err != nil {
					return false, err
				}
			}
			return true, out.err
		})
		if err != nil {
			return err
		}
		return out.close()
	})
}

// userOf returns the file that the key of a user names.
func userOf(k []byte) (d digest, ok bool) {
	if len(k) <= 1+len(d) || k[0] != kindUser {
		return d, false
	}
	copy(d[:], k[1:])
	return d, true
}

func (s *Store) copyFile(out *streamWriter, d digest) error {
	fi, err := os.Stat(s.files.path(d))
	if err != nil {
		return fmt.Errorf("%w: %w: %s", batch.ErrCorrupt, err, remedy)
	}
	if fi.Size() > maxFileBytes {
		return fmt.Errorf("file %s has %d bytes: %w: %s", s.files.path(d), fi.Size(), batch.ErrCorrupt, remedy)
	}
	p := make([]byte, fi.Size())
	if err := s.files.read(d, p); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	out.file(d, p)
	return nil
}

// Restore makes a store in the folder dir from a backup. The folder must be empty or
// not exist. The error wraps ErrBadBackup when the backup is damaged or cut short,
// and batch.ErrCorrupt when it is whole and what it holds is not. The folder appears
// only when everything is in it, durably: after an error there is nothing, and after
// a kill a folder beside it, <dir>.restoring-*, that may be removed.
func Restore(ctx context.Context, dir string, r io.Reader) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	switch list, err := os.ReadDir(dir); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	case len(list) > 0:
		return fmt.Errorf("restore: folder %s is not empty: move it away, or choose another data_dir: %w", dir, os.ErrExist)
	}
	if err := makeFolder(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".restoring-*")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s: %w", dir, errors.Join(err, os.RemoveAll(temp)))
		}
	}()
	if err := restoreInto(ctx, temp, r); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

func restoreInto(ctx context.Context, dir string, r io.Reader) (err error) {
	s, err := Open(dir, Options{MinFreeMiB: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// A file comes before the record that names it is written: the sweep of a store
	// that was just opened would take it for one that a killed process left behind.
	defer s.files.hold()()
	re := restorer{ctx: ctx, s: s}
	if err := (streamReader{head: re.head, record: re.record, file: re.file}).read(r); err != nil {
		return err
	}
	if err := re.flush(); err != nil {
		return err
	}
	return re.complete()
}

// restorer writes what a backup has into a new store.
type restorer struct {
	ctx     context.Context
	s       *Store
	entries []entry
	size    load
}

func (re *restorer) head(h streamHead) error {
	if h.Kind != backupStream {
		return fmt.Errorf("%w: it is what doctor has put aside", ErrBadBackup)
	}
	return nil
}

func (re *restorer) record(k, rec []byte) error {
	if k[0] == kindSchema {
		return nil // Open has written that of today
	}
	if len(rec) < largeBytes || rec[0] != 1 {
		return re.put(entry{k, rec})
	}
	// A large record of format 1 was in the value log.
	v, err := recode(k, rec)
	if err != nil {
		return damaged(k, err)
	}
	if v.big == nil {
		return re.put(entry{k, v.rec})
	}
	run, err := runOf(k, rec)
	if err != nil {
		return damaged(k, err)
	}
	if err := re.s.files.store(v.big); err != nil {
		return err
	}
	return errors.Join(re.put(entry{k, v.rec}), re.put(entry{userKey(v.big.digest, k), encodeIndex(kindUser)}),
		re.put(entry{fileKey(run, k), encodeFile(v.big.digest)}))
}

func (re *restorer) put(e entry) error {
	n := re.size.plus(re.s.limits.measure([]entry{e}))
	if re.s.limits.admit(n) != nil {
		if err := re.flush(); err != nil {
			return err
		}
		n = re.s.limits.measure([]entry{e})
	}
	re.entries, re.size = append(re.entries, e), n
	return nil
}

func (re *restorer) flush() error {
	err := re.ctx.Err()
	if err == nil {
		err = re.s.writer.submit(re.ctx, certain(re.entries), re.s.writeGroup)
	}
	re.entries, re.size = nil, load{}
	return err
}

func (re *restorer) file(_ digest, content []byte) error {
	if err := re.ctx.Err(); err != nil {
		return err
	}
	return re.s.files.store(newContent(content, nil))
}

// complete looks for files that records name and the backup did not have.
func (re *restorer) complete() error {
	return re.s.view("files", func(v *view) error {
		return v.scan(re.ctx, []byte{kindUser}, nil, false, func(k, _ []byte) (bool, error) {
			d, ok := userOf(k)
			if !ok {
				return false, damaged(k, errShort)
			}
			if _, err := os.Stat(re.s.files.path(d)); err != nil {
				return false, fmt.Errorf("%w: file %x is not in it", ErrBadBackup, d)
			}
			return true, nil
		})
	})
}
