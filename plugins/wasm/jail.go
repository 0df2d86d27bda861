package wasm

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Bounds of a guest's path. A folder cannot be moved so that what is in it would
// be deeper.
const (
	maxPathBytes = 4096
	maxPathDepth = 100
)

// jail is a granted folder as a guest's file system. Every path goes through
// os.Root, so that symbolic links, ".." and whatever happens to the tree meanwhile
// stay inside. On top of that it makes no links of either kind, opens nothing but
// files with one name and folders, and holds the folder's quota.
//
// A guest is told as little as WASI allows: inode numbers are made up, owners and
// modes are not shown, and no link's target that leads out.
type jail struct {
	experimentalsys.UnimplementedFS
	mount
	set    *mountSet
	root   *os.Root
	folder *folder
}

// cleanPath makes name relative to the folder. wazero hands over what the guest
// wrote, joined to the name of the folder that it opened. asFolder: a slash at the
// end says that it must be one.
func cleanPath(name string) (p string, asFolder bool, errno experimentalsys.Errno) {
	if len(name) > maxPathBytes {
		return "", false, experimentalsys.ENAMETOOLONG
	}
	if strings.ContainsRune(name, 0) {
		return "", false, experimentalsys.EINVAL
	}
	p = strings.TrimPrefix(path.Clean("/"+name), "/")
	if p == "" {
		return ".", true, 0
	}
	if strings.Count(p, "/") >= maxPathDepth {
		return "", false, experimentalsys.ENAMETOOLONG
	}
	return p, strings.HasSuffix(name, "/"), 0
}

func depthOf(p string) int { return strings.Count(p, "/") + 1 }

// errno translates an error of the host. What os.Root says about a path that leads
// out has no number; it is a refusal.
func (j *jail) errno(p string, err error) experimentalsys.Errno {
	var e syscall.Errno
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &e):
		switch e {
		case syscall.ENOSPC, syscall.EDQUOT:
			j.refuse(p, "the disk is full")
		case syscall.EMFILE, syscall.ENFILE:
			j.refuse(p, "the host has too many open files")
		}
		return experimentalsys.UnwrapOSError(e)
	case errors.Is(err, fs.ErrClosed):
		return experimentalsys.EBADF
	}
	j.refuse(p, "the path leads out of the granted folder")
	return experimentalsys.EACCES
}

func (j *jail) refuse(p, reason string) {
	j.set.note(path.Join(j.guest, p), reason)
}

// guestStat is info as a guest may see it. Times of files are a clock for whoever
// writes them, and no finer than the guest's.
func (m *mount) guestStat(info fs.FileInfo) sys.Stat_t {
	st := sys.NewStat_t(info)
	st.Ino = guestInode(st.Dev, st.Ino)
	st.Dev = 1
	st.Mode &= fs.ModeType | fs.ModePerm
	if m.coarse {
		for _, t := range []*int64{&st.Atim, &st.Mtim, &st.Ctim} {
			*t -= *t % int64(coarseStep)
		}
	}
	return st
}

// Stat implements experimentalsys.FS.
func (j *jail) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return j.stat(name, true)
}

// Lstat implements experimentalsys.FS.
func (j *jail) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return j.stat(name, false)
}

func (j *jail) stat(name string, follow bool) (sys.Stat_t, experimentalsys.Errno) {
	p, asFolder, errno := cleanPath(name)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	look := j.root.Lstat
	if follow || asFolder {
		look = j.root.Stat
	}
	info, err := look(p)
	if err != nil {
		return sys.Stat_t{}, j.errno(p, err)
	}
	if asFolder && !info.IsDir() {
		return sys.Stat_t{}, experimentalsys.ENOTDIR
	}
	return j.guestStat(info), 0
}

// Readlink implements experimentalsys.FS. Links that were there before may be read
// when they lead to a place inside by themselves; the others would show the host's
// paths.
func (j *jail) Readlink(name string) (string, experimentalsys.Errno) {
	p, asFolder, errno := cleanPath(name)
	switch {
	case errno != 0:
		return "", errno
	case asFolder:
		return "", experimentalsys.EINVAL
	}
	target, err := j.root.Readlink(p)
	if err != nil {
		return "", j.errno(p, err)
	}
	if path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(p), target)) {
		j.refuse(p, "the symbolic link leads out of the granted folder")
		return "", experimentalsys.EACCES
	}
	return target, 0
}

// Symlink implements experimentalsys.FS: a guest makes no symbolic links. They are
// what every escape from a folder begins with, also for the host's own programs
// that work in it later.
func (j *jail) Symlink(_, link string) experimentalsys.Errno {
	return j.noLinks(link)
}

// Link implements experimentalsys.FS: a guest makes no hard links.
func (j *jail) Link(_, link string) experimentalsys.Errno {
	return j.noLinks(link)
}

func (j *jail) noLinks(link string) experimentalsys.Errno {
	p, _, errno := cleanPath(link)
	switch {
	case errno != 0:
		return errno
	case !j.write:
		return experimentalsys.EROFS
	}
	j.refuse(p, "links cannot be made")
	return experimentalsys.EPERM
}

// Chmod implements experimentalsys.FS. WASI has no such call; what a guest makes is
// the host's alone.
func (j *jail) Chmod(string, fs.FileMode) experimentalsys.Errno {
	if !j.write {
		return experimentalsys.EROFS
	}
	return experimentalsys.EPERM
}

// changed is cleanPath for what is made or removed; ofItself is for the folder itself.
func (j *jail) changed(name string, ofItself experimentalsys.Errno) (p string, asFolder bool, errno experimentalsys.Errno) {
	p, asFolder, errno = cleanPath(name)
	switch {
	case errno != 0:
	case !j.write:
		errno = experimentalsys.EROFS
	case p == ".":
		errno = ofItself
	}
	return p, asFolder, errno
}

// Mkdir implements experimentalsys.FS.
func (j *jail) Mkdir(name string, _ fs.FileMode) experimentalsys.Errno {
	p, _, errno := j.changed(name, experimentalsys.EEXIST)
	if errno != 0 {
		return errno
	}
	j.folder.mu.Lock()
	defer j.folder.mu.Unlock()
	if _, err := j.root.Lstat(p); err == nil {
		return experimentalsys.EEXIST
	}
	if !j.folder.admit(j, p, blockBytes, 1) {
		return experimentalsys.EIO
	}
	if err := j.root.Mkdir(p, 0o700); err != nil {
		j.folder.add(-blockBytes, -1)
		return j.errno(p, err)
	}
	return 0
}

// Unlink implements experimentalsys.FS.
func (j *jail) Unlink(name string) experimentalsys.Errno { return j.remove(name, false) }

// Rmdir implements experimentalsys.FS.
func (j *jail) Rmdir(name string) experimentalsys.Errno { return j.remove(name, true) }

func (j *jail) remove(name string, folder bool) experimentalsys.Errno {
	p, asFolder, errno := j.changed(name, experimentalsys.EPERM)
	if errno != 0 {
		return errno
	}
	j.folder.mu.Lock()
	defer j.folder.mu.Unlock()
	info, err := j.root.Lstat(p)
	switch {
	case err != nil:
		return j.errno(p, err)
	case info.IsDir() && !folder:
		return experimentalsys.EISDIR
	case !info.IsDir() && (folder || asFolder):
		return experimentalsys.ENOTDIR
	}
	if err := j.root.Remove(p); err != nil {
		return j.errno(p, err)
	}
	j.folder.unlinked(info)
	return 0
}

// Rename implements experimentalsys.FS. wazero refuses one between two mounts with
// ENOSYS before it comes here.
func (j *jail) Rename(from, to string) experimentalsys.Errno {
	p, fromFolder, errno := cleanPath(from)
	q, toFolder, errno2 := cleanPath(to)
	switch {
	case errno != 0:
		return errno
	case errno2 != 0:
		return errno2
	case !j.write:
		return experimentalsys.EROFS
	case p == "." || q == ".":
		return experimentalsys.EINVAL
	}
	j.folder.mu.Lock()
	defer j.folder.mu.Unlock()
	info, err := j.root.Lstat(p)
	if err != nil {
		return j.errno(p, err)
	}
	if !info.IsDir() && (fromFolder || toFolder) {
		return experimentalsys.ENOTDIR
	}
	if p == q {
		return 0
	}
	if info.IsDir() {
		if errno := j.checkMove(p, q); errno != 0 {
			return errno
		}
	}
	over, err := j.root.Lstat(q)
	switch {
	case err == nil && os.SameFile(info, over):
		return 0
	case err == nil && over.IsDir() && !info.IsDir():
		return experimentalsys.EISDIR
	case err == nil && !over.IsDir() && info.IsDir():
		return experimentalsys.ENOTDIR
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return j.errno(q, err)
	}
	replaced := err == nil
	if err := j.root.Rename(p, q); err != nil {
		return j.errno(q, err)
	}
	if replaced {
		j.folder.unlinked(over)
	}
	return 0
}

// checkMove refuses to make a tree deeper than paths may be.
func (j *jail) checkMove(from, to string) experimentalsys.Errno {
	if depthOf(to) <= depthOf(from) {
		return 0
	}
	u, err := measure(j.set.context(), j.root, from)
	if err != nil {
		j.refuse(from, "the folder cannot be moved: "+err.Error())
		return experimentalsys.EIO
	}
	if depthOf(to)+u.depth > maxPathDepth {
		return experimentalsys.ENAMETOOLONG
	}
	return 0
}

// Utimens implements experimentalsys.FS. The file is opened, so that the times of
// nothing else are set.
func (j *jail) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	if !j.write {
		return experimentalsys.EROFS
	}
	f, errno := j.OpenFile(name, experimentalsys.O_RDONLY, 0)
	if errno != 0 {
		return errno
	}
	defer f.Close()
	return f.Utimens(atim, mtim)
}
