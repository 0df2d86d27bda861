package wasm

import (
	"io"
	"io/fs"
	"math"
	"os"
	"sync"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// maxListing is how many entries of a folder one request may ask for. wazero takes
// fewer than it asked for as the end, and asks for as many as the guest says its
// buffer holds.
const maxListing = 1 << 16

// offset is an int64 that keeps go vet from holding Seek against io.Seeker.
type offset = int64

// jailFile is a file or folder that a guest has open. The guest's calls come one at
// a time; Close may come in between from another goroutine.
type jailFile struct {
	experimentalsys.UnimplementedFile
	jail     *jail
	path     string
	flag     experimentalsys.Oflag
	folder   bool
	writable bool
	off      int64 // of the next Read or Write
	listed   int   // entries since the beginning; guarded by the set's mu
	id       fileID
	node     *node // nil for a folder

	file   *os.File
	close1 sync.Once
}

func (f *jailFile) errno(err error) experimentalsys.Errno { return f.jail.errno(f.path, err) }

func (f *jailFile) stat() (fs.FileInfo, experimentalsys.Errno) {
	info, err := f.file.Stat()
	return info, f.errno(err)
}

// Dev implements experimentalsys.File.
func (f *jailFile) Dev() (uint64, experimentalsys.Errno) {
	st, errno := f.Stat()
	return st.Dev, errno
}

// Ino implements experimentalsys.File.
func (f *jailFile) Ino() (sys.Inode, experimentalsys.Errno) {
	st, errno := f.Stat()
	return st.Ino, errno
}

// IsDir implements experimentalsys.File.
func (f *jailFile) IsDir() (bool, experimentalsys.Errno) { return f.folder, 0 }

// IsAppend implements experimentalsys.File.
func (f *jailFile) IsAppend() bool { return f.flag&experimentalsys.O_APPEND != 0 }

// Stat implements experimentalsys.File.
func (f *jailFile) Stat() (sys.Stat_t, experimentalsys.Errno) {
	info, errno := f.stat()
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return f.jail.guestStat(info), 0
}

// SetAppend implements experimentalsys.File. The kernel wants another descriptor
// for it, of the same file under the same name.
func (f *jailFile) SetAppend(enable bool) experimentalsys.Errno {
	flag := f.flag &^ experimentalsys.O_APPEND
	if enable {
		flag |= experimentalsys.O_APPEND
	}
	if flag == f.flag {
		return 0
	}
	if !f.writable || f.folder {
		f.flag = flag
		return 0
	}
	o := opening{jail: f.jail, path: f.path, flag: flag &^ (experimentalsys.O_CREAT | experimentalsys.O_EXCL | experimentalsys.O_TRUNC)}
	again, err := f.jail.root.OpenFile(f.path, o.osFlag(), 0)
	if err != nil {
		return f.errno(err)
	}
	old, err := f.file.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = again.Stat(); err == nil && !os.SameFile(old, now) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = again.Close()
		return experimentalsys.UnwrapOSError(err)
	}
	f.jail.set.mu.Lock()
	open := f.jail.set.files != nil
	if open {
		f.file, again = again, f.file
	}
	f.jail.set.mu.Unlock()
	_ = again.Close()
	if !open {
		return experimentalsys.EBADF
	}
	f.flag = flag
	return 0
}

// ended reports whether the call is over: a guest can have one request read or
// write a million pieces.
func (f *jailFile) ended() bool { return f.jail.set.context().Err() != nil }

// Read implements experimentalsys.File.
func (f *jailFile) Read(buf []byte) (int, experimentalsys.Errno) {
	n, errno := f.Pread(buf, f.off)
	f.off += int64(n)
	return n, errno
}

// Pread implements experimentalsys.File.
func (f *jailFile) Pread(buf []byte, off int64) (int, experimentalsys.Errno) {
	switch {
	case f.folder:
		return 0, experimentalsys.EISDIR
	case off < 0:
		return 0, experimentalsys.EINVAL
	case len(buf) == 0:
		return 0, 0
	case f.ended():
		return 0, experimentalsys.EINTR
	}
	n, err := f.file.ReadAt(buf, off)
	return n, f.errno(err)
}

// Seek implements experimentalsys.File. A folder can only be read again from its
// beginning.
func (f *jailFile) Seek(to offset, whence int) (int64, experimentalsys.Errno) {
	if f.folder {
		if to != 0 || whence != io.SeekStart {
			return 0, experimentalsys.EINVAL
		}
		_, err := f.file.Seek(0, io.SeekStart)
		f.jail.set.unlist(f)
		return 0, f.errno(err)
	}
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = f.off
	case io.SeekEnd:
		info, errno := f.stat()
		if errno != 0 {
			return 0, errno
		}
		base = info.Size()
	default:
		return 0, experimentalsys.EINVAL
	}
	if to > 0 && base > math.MaxInt64-to || base+to < 0 {
		return 0, experimentalsys.EINVAL
	}
	f.off = base + to
	return f.off, 0
}

// Readdir implements experimentalsys.File.
func (f *jailFile) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	if !f.folder {
		return nil, experimentalsys.EBADF
	}
	if !f.jail.set.mayList(f) {
		f.jail.refuse(f.path, "too many entries of folders are being listed at once")
		return nil, experimentalsys.EIO
	}
	ask := n
	if n <= 0 || n > maxListing {
		ask = maxListing + 1
	}
	entries, err := f.file.Readdir(ask)
	if errno := f.errno(err); errno != 0 {
		return nil, errno
	}
	if len(entries) > maxListing {
		f.jail.refuse(f.path, "the folder has too many entries to be listed at once")
		return nil, experimentalsys.EINVAL
	}
	f.jail.set.list(f, len(entries))
	list := make([]experimentalsys.Dirent, 0, len(entries))
	for _, e := range entries {
		list = append(list, experimentalsys.Dirent{Name: e.Name(), Ino: f.jail.guestStat(e).Ino, Type: e.Mode().Type()})
	}
	return list, 0
}

// Write implements experimentalsys.File.
func (f *jailFile) Write(buf []byte) (int, experimentalsys.Errno) {
	n, end, errno := f.put(buf, f.off)
	f.off = end
	return n, errno
}

// Pwrite implements experimentalsys.File. On a file that appends it appends, as it
// does on Linux.
func (f *jailFile) Pwrite(buf []byte, off int64) (int, experimentalsys.Errno) {
	n, _, errno := f.put(buf, off)
	return n, errno
}

// put writes at off, or at the end of a file that appends, and returns where what
// was written ends.
func (f *jailFile) put(buf []byte, off int64) (n int, end int64, errno experimentalsys.Errno) {
	switch {
	case f.folder:
		return 0, off, experimentalsys.EISDIR
	case !f.writable:
		return 0, off, experimentalsys.EBADF
	case off < 0 || off > math.MaxInt64-int64(len(buf)):
		return 0, off, experimentalsys.EINVAL
	case len(buf) == 0:
		return 0, off, 0
	case f.ended():
		return 0, off, experimentalsys.EINTR
	}
	d := f.jail.folder
	d.mu.Lock()
	defer d.mu.Unlock()
	info, errno := f.stat()
	if errno != 0 {
		return 0, off, errno
	}
	size := info.Size()
	if f.IsAppend() {
		off = size
	}
	larger := max(size, off+int64(len(buf)))
	if !d.admit(f.jail, f.path, costOf(larger)-costOf(size), 0) {
		return 0, off, experimentalsys.EIO
	}
	var err error
	if f.IsAppend() {
		n, err = f.file.Write(buf)
	} else {
		n, err = f.file.WriteAt(buf, off)
	}
	end = off + int64(n)
	became := size
	if n > 0 {
		became = max(size, end)
	}
	d.add(costOf(became)-costOf(larger), 0)
	f.node.size = became
	return n, end, f.errno(err)
}

// Truncate implements experimentalsys.File.
func (f *jailFile) Truncate(size int64) experimentalsys.Errno {
	switch {
	case f.folder:
		return experimentalsys.EISDIR
	case !f.jail.write:
		return experimentalsys.EROFS
	case !f.writable:
		return experimentalsys.EBADF
	case size < 0:
		return experimentalsys.EINVAL
	}
	f.jail.folder.mu.Lock()
	defer f.jail.folder.mu.Unlock()
	return f.resize(size)
}

// resize changes the size of a file; the folder is locked. A file that grows
// without being written counts in full: it is a promise to hold that much.
func (f *jailFile) resize(size int64) experimentalsys.Errno {
	info, errno := f.stat()
	if errno != 0 {
		return errno
	}
	if size > math.MaxInt64-blockBytes {
		return experimentalsys.EINVAL
	}
	d, change := f.jail.folder, costOf(size)-costOf(info.Size())
	if !d.admit(f.jail, f.path, change, 0) {
		return experimentalsys.EIO
	}
	if err := f.file.Truncate(size); err != nil {
		d.add(-change, 0)
		return f.errno(err)
	}
	f.node.size = size
	return 0
}

// Sync implements experimentalsys.File.
func (f *jailFile) Sync() experimentalsys.Errno {
	if !f.writable {
		return 0
	}
	return f.errno(f.file.Sync())
}

// Datasync implements experimentalsys.File.
func (f *jailFile) Datasync() experimentalsys.Errno { return f.Sync() }

// Utimens implements experimentalsys.File.
func (f *jailFile) Utimens(atim, mtim int64) experimentalsys.Errno {
	switch {
	case !f.jail.write:
		return experimentalsys.EROFS
	case atim == experimentalsys.UTIME_OMIT && mtim == experimentalsys.UTIME_OMIT:
		return 0
	}
	return f.errno(setTimes(f.file, atim, mtim))
}

// Close implements experimentalsys.File.
func (f *jailFile) Close() experimentalsys.Errno {
	var err error
	f.close1.Do(func() {
		f.jail.set.mu.Lock()
		file := f.file
		f.jail.set.mu.Unlock()
		err = file.Close()
		if f.node != nil {
			f.jail.folder.mu.Lock()
			f.jail.folder.closed(f.id, f.node)
			f.jail.folder.mu.Unlock()
		}
		f.jail.set.drop(f)
	})
	if err != nil {
		return experimentalsys.EIO
	}
	return 0
}
