package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/awaken-agents/awaken-host/batch"
)

// ledgerReserve is how many zeros are written ahead of the records: a sync of what
// lies within the file's size has no size to write.
const ledgerReserve = 256 << 10

// add writes one record.
func (l *Ledger) add(rec LedgerRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.take(); err != nil {
		return err
	}
	if l.end > maxLedgerBytes || len(l.order) > maxLedgerRecord {
		if err := l.rewrite(); err != nil {
			return err
		}
	}
	return l.append(rec)
}

func (l *Ledger) append(rec LedgerRecord) error {
	b, err := l.seal(rec, l.next)
	if err != nil {
		return fmt.Errorf("operation ledger: operation %s: %w", rec.Operation, err)
	}
	at := l.end
	if err := writeReserved(l.file, b, at); err != nil {
		return fmt.Errorf("operation ledger: operation %s: %w", rec.Operation, err)
	}
	l.end += int64(len(b))
	l.next++
	l.note(rec, at+ledgerHead, int64(len(b))-ledgerHead)
	return nil
}

func writeReserved(f *os.File, b []byte, at int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if at+int64(len(b)) > info.Size() {
		if _, err := f.WriteAt(make([]byte, ledgerReserve), at+int64(len(b))); err != nil {
			return err
		}
	}
	_, err = f.WriteAt(b, at)
	return err
}

// take makes the ledger this process's to write, once.
func (l *Ledger) take() error {
	if l.writes {
		return nil
	}
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	f, err := openPlain(l.path(), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("operation ledger: %w", err)
	}
	l.file = f
	l.forget()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLedgerTaken
		}
		return fmt.Errorf("%s: %w", l.path(), err)
	}
	if !l.current() {
		return fmt.Errorf("%s: %w", l.path(), ErrLedgerTaken)
	}
	if err := l.scan(); err != nil {
		return err
	}
	if l.end == 0 || l.damaged != nil {
		return l.rewrite()
	}
	l.writes = true
	return nil
}

// rewrite puts what is known into a new file that takes the place of the old one.
// Operations that are done go, oldest first, while there is more than half of what
// may be. One that is not done stays: it is what nobody else remembers.
func (l *Ledger) rewrite() error {
	l.writes = false
	var size int64
	for _, op := range l.order {
		size += l.index[op].n
	}
	drop := map[batch.OperationID]bool{}
	for _, op := range l.order {
		e := l.index[op]
		if size <= maxLedgerBytes/2 && len(l.order)-len(drop) <= maxLedgerRecord/2 {
			break
		}
		if e.done {
			drop[op] = true
			size -= e.n
		}
	}
	temp := l.path() + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) { //nolint:gosec // the state folder is for the caller to name
		return fmt.Errorf("operation ledger: %w", err)
	}
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the state folder is for the caller to name
	if err != nil {
		return fmt.Errorf("operation ledger: %w", err)
	}
	fresh := &Ledger{dir: l.dir, key: l.key, file: f, next: l.next}
	fresh.index = map[batch.OperationID]entry{}
	err = l.copyTo(fresh, drop)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, l.path()) //nolint:gosec // the state folder is for the caller to name
	}
	if err == nil {
		err = syncFolder(l.dir)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("operation ledger: it cannot be written anew: %w", err)
	}
	_ = l.file.Close()
	l.file, l.index, l.order, l.end, l.next, l.writes = f, fresh.index, fresh.order, fresh.end, fresh.next, true
	return nil
}

// copyTo writes the head of a ledger, which says whether something was lost, and
// every record that is kept.
func (l *Ledger) copyTo(fresh *Ledger, drop map[batch.OperationID]bool) error {
	head := LedgerRecord{}
	if l.damaged != nil {
		head.Failed = batch.ToolErrorExecution
	}
	if err := fresh.append(head); err != nil {
		return err
	}
	for _, op := range l.order {
		if drop[op] {
			continue
		}
		e := l.index[op]
		payload := make([]byte, e.n)
		if _, err := l.file.ReadAt(payload, e.at); err != nil {
			return err
		}
		rec, out, _, ok := l.open(payload)
		if !ok {
			_ = l.damage("the record of operation %s was changed", op)
			continue
		}
		if out != nil {
			output, err := DecodeOutput(out)
			if err != nil {
				return err
			}
			rec.Output = output
		}
		if err := fresh.append(rec); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the state folder is for the caller to name
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
