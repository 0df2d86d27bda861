package wasm

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
)

// OpenFile implements experimentalsys.FS.
func (j *jail) OpenFile(name string, flag experimentalsys.Oflag, _ fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	p, asFolder, errno := cleanPath(name)
	if errno != 0 {
		return nil, errno
	}
	o := opening{jail: j, path: p, flag: flag, asFolder: asFolder || flag&experimentalsys.O_DIRECTORY != 0}
	if o.changes() && !j.write {
		return nil, experimentalsys.EROFS
	}
	f := &jailFile{jail: j, path: p, flag: flag}
	if !j.set.reserve() {
		j.refuse(p, "too many files are open")
		errno = experimentalsys.EIO
	} else if errno = o.open(f); errno != 0 {
		j.set.drop(f)
	} else if !j.set.keep(f) {
		f.Close()
		errno = experimentalsys.EBADF
	}
	if errno != 0 {
		if p == "." && !o.changes() {
			// wazero panics at any other number when it opens a mount.
			errno = experimentalsys.ENOENT
		}
		return nil, errno
	}
	return f, 0
}

// opening is one path_open.
type opening struct {
	*jail
	path     string
	flag     experimentalsys.Oflag
	asFolder bool
}

func (o *opening) has(flag experimentalsys.Oflag) bool { return o.flag&flag != 0 }

// writes: emptying a file is writing, whatever rights the guest asks for beside it.
func (o *opening) writes() bool {
	return o.has(experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_TRUNC)
}

func (o *opening) changes() bool { return o.writes() || o.has(experimentalsys.O_CREAT) }

// osFlag is what the kernel gets. O_TRUNC is not in it: a file is looked at before
// it is emptied. O_NONBLOCK keeps a fifo, put there between the look and the
// opening, from holding the host.
func (o *opening) osFlag() int {
	n := os.O_RDONLY
	switch {
	case o.has(experimentalsys.O_WRONLY):
		n = os.O_WRONLY
	case o.writes():
		n = os.O_RDWR
	}
	if o.writes() && o.has(experimentalsys.O_APPEND) {
		n |= os.O_APPEND
	}
	if o.has(experimentalsys.O_SYNC | experimentalsys.O_DSYNC) {
		n |= os.O_SYNC
	}
	return n | syscall.O_NONBLOCK
}

// open fills f. It tries again when somebody else makes or removes the file between
// two steps.
func (o *opening) open(f *jailFile) experimentalsys.Errno {
	if o.changes() {
		o.folder.mu.Lock()
		defer o.folder.mu.Unlock()
	}
	for range 3 {
		look := o.root.Stat
		if o.has(experimentalsys.O_NOFOLLOW) && !o.asFolder {
			look = o.root.Lstat
		}
		info, err := look(o.path)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && (!missing || !o.has(experimentalsys.O_CREAT)) {
			return o.errno(o.path, err)
		}
		var file *os.File
		if missing {
			var errno experimentalsys.Errno
			if file, errno = o.create(); errno == experimentalsys.EEXIST && !o.has(experimentalsys.O_EXCL) {
				continue
			} else if errno != 0 {
				return errno
			}
		} else {
			if errno := o.accept(info); errno != 0 {
				return errno
			}
			file, err = o.root.OpenFile(o.path, o.osFlag(), 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return o.errno(o.path, err)
			}
		}
		same, errno := o.finish(f, file, info)
		if same {
			return errno
		}
	}
	o.refuse(o.path, "the file is replaced again and again")
	return experimentalsys.EACCES
}

// accept looks at what is there before it is opened. Opening a device can already
// do something, and a name that is removed between the opening and the counting of
// names would make a file with two of them look as if it had one.
func (o *opening) accept(info fs.FileInfo) experimentalsys.Errno {
	switch {
	case o.has(experimentalsys.O_CREAT) && o.has(experimentalsys.O_EXCL):
		return experimentalsys.EEXIST
	case info.Mode()&fs.ModeSymlink != 0:
		return experimentalsys.ELOOP
	case info.IsDir() && o.changes():
		return experimentalsys.EISDIR
	case !info.IsDir() && !info.Mode().IsRegular():
		o.refuse(o.path, "it is neither a file nor a folder")
		return experimentalsys.EACCES
	case !info.IsDir() && o.asFolder:
		return experimentalsys.ENOTDIR
	case info.IsDir():
		return 0
	}
	return o.acceptOneName(info)
}

// acceptOneName wants a file with one name.
func (o *opening) acceptOneName(info fs.FileInfo) experimentalsys.Errno {
	_, links, ok := identify(info)
	switch {
	case !ok:
		o.refuse(o.path, "its links cannot be counted on this system")
		return experimentalsys.EACCES
	case links > 1:
		// One of its other names can be anywhere on the disk.
		o.refuse(o.path, "the file has more than one name (hard links); copy it to give it one")
		return experimentalsys.EACCES
	}
	return 0
}

// acceptAgain decides about the names of a file that is open, from what was said of
// it just now. One name means nothing yet: while a second one is being removed, by
// which it may have been opened, the kernel already counts it off. But a name that is
// removed is first counted off and then gone, all within one turn at its folder, so: a
// file that had one name, and after another turn at the folder still has the one that
// it was opened by, had no name elsewhere.
func (o *opening) acceptAgain(file *os.File, info fs.FileInfo) (same bool, errno experimentalsys.Errno) {
	if errno := o.acceptOneName(info); errno != 0 {
		return true, errno
	}
	name, ok := o.nameOf(info)
	if !ok {
		return false, 0
	}
	// To its own name: nothing happens, when it is the folder's turn for it.
	if err := o.root.Rename(name, name); errors.Is(err, fs.ErrNotExist) {
		return false, 0
	} else if err != nil && !errors.Is(err, syscall.EROFS) { // where nobody removes names
		return true, o.errno(o.path, err)
	}
	return stillNamed(file), 0
}

// nameOf is where the file lies that the path leads to; false when that is another
// file by now.
func (o *opening) nameOf(file fs.FileInfo) (string, bool) {
	name := o.path
	for range maxLinks {
		info, err := o.root.Lstat(name)
		if err != nil {
			return "", false
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return name, os.SameFile(info, file)
		}
		target, err := o.root.Readlink(name)
		if err != nil || path.IsAbs(target) {
			return "", false
		}
		name = path.Join(path.Dir(name), target)
	}
	return "", false
}

// maxLinks is how many links in a row are followed.
const maxLinks = 8

// create makes the file, EEXIST when somebody else did.
func (o *opening) create() (*os.File, experimentalsys.Errno) {
	if o.asFolder {
		return nil, experimentalsys.EISDIR
	}
	if !o.folder.admit(o.jail, o.path, costOf(0), 1) {
		return nil, experimentalsys.EIO
	}
	file, err := o.root.OpenFile(o.path, o.osFlag()|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		o.folder.add(-costOf(0), -1)
		return nil, o.errno(o.path, err)
	}
	return file, 0
}

// finish takes the file that was opened, if it is still the one that was looked at.
// It closes it otherwise, and on failure.
func (o *opening) finish(f *jailFile, file *os.File, looked fs.FileInfo) (same bool, errno experimentalsys.Errno) {
	if !o.changes() {
		o.folder.mu.Lock()
		defer o.folder.mu.Unlock()
	}
	info, err := file.Stat()
	same = err != nil || looked == nil || os.SameFile(looked, info)
	if err == nil && same && looked != nil && info.Mode().IsRegular() {
		same, errno = o.acceptAgain(file, info)
	}
	if err != nil {
		errno = o.errno(o.path, err)
	} else if same && errno == 0 {
		if id, links, ok := identify(info); ok && info.Mode().IsRegular() {
			f.node, f.id = o.folder.opened(id, links, info.Size()), id
		}
		f.file, f.folder, f.writable = file, info.IsDir(), o.writes()
		if o.has(experimentalsys.O_TRUNC) {
			errno = f.resize(0)
		}
	}
	if !same || errno != 0 {
		if f.node != nil {
			o.folder.closed(f.id, f.node)
		}
		f.file, f.node = nil, nil
		_ = file.Close()
	}
	return same, errno
}
