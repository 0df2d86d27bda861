package wasm

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"
)

// How a folder is measured. What is in it costs whole blocks, and one at least, so
// that a great many empty files are not free.
const (
	blockBytes  = 4 << 10
	maxMeasured = 200_000 // entries; a larger folder has no quota that could be held
)

// How often a folder is measured again: before a write is refused, because somebody
// may have made room, and now and then, because somebody may have filled it. Never
// so often that more than a tenth, or a hundredth, of the time goes to it.
const (
	measuredRecently = time.Second
	measuredLongAgo  = time.Minute
)

// costOf is what a file of that size counts for.
func costOf(size int64) int64 {
	if size <= blockBytes {
		return blockBytes
	}
	return (size + blockBytes - 1) &^ (blockBytes - 1)
}

// fileID tells files apart as the kernel does.
type fileID struct{ dev, ino uint64 }

var inodeSeed = maphash.MakeSeed()

// guestInode is a number that guests may see: the same for the same file while the
// process lives, and nothing that says where on the disk it is.
func guestInode(dev, ino uint64) uint64 {
	return max(maphash.Comparable(inodeSeed, fileID{dev, ino}), 1)
}

// identify returns who a file is and how many names it has.
func identify(info fs.FileInfo) (id fileID, links uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 0, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink), true
}

// usage is what a folder holds.
type usage struct {
	bytes int64
	files int64
	depth int // levels below it
}

// folder is one host folder and what it holds, shared by every instance that has it
// mounted. Changes by guests are counted one at a time; those by others are found
// by measuring.
type folder struct {
	id   fileID
	all  *folders
	refs int // guarded by all.mu

	mu       sync.Mutex
	held     usage
	measured time.Time // zero: never
	took     time.Duration
	nodes    map[fileID]*node
}

// node is a file that guests have open. One that lost its name meanwhile still
// fills the disk: it counts until it is closed.
type node struct {
	handles int
	size    int64
	gone    bool
}

// folders are the folders that instances have mounted.
type folders struct {
	mu   sync.Mutex
	byID map[fileID]*folder
}

// take returns the folder that info is of; it is given back with release.
func (a *folders) take(info fs.FileInfo) (*folder, error) {
	id, _, ok := identify(info)
	if !ok {
		return nil, errors.New("this system does not tell files apart")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.byID[id]
	if d == nil {
		d = &folder{id: id, all: a, nodes: map[fileID]*node{}}
		if a.byID == nil {
			a.byID = map[fileID]*folder{}
		}
		a.byID[id] = d
	}
	d.refs++
	return d, nil
}

// release gives a folder back. What is known of it is kept for a while.
func (d *folder) release() {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	d.refs--
}

// sweep forgets folders that nobody has mounted and that were not measured since.
func (a *folders) sweep(before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, d := range a.byID {
		if d.refs > 0 {
			continue
		}
		d.mu.Lock()
		if len(d.nodes) == 0 && d.measured.Before(before) {
			delete(a.byID, id)
		}
		d.mu.Unlock()
	}
}

// admit counts bytes and files that are about to come, or says no: there is no room
// under j's quota, or the folder cannot be measured. The folder is locked.
func (d *folder) admit(j *jail, p string, bytes, files int64) bool {
	bounded := j.maxBytes > 0 && bytes > 0 || j.maxFiles > 0 && files > 0
	if bounded && !d.fits(j, p, bytes, files) {
		return false
	}
	d.add(bytes, files)
	return true
}

func (d *folder) fits(j *jail, p string, bytes, files int64) bool {
	over := func() string {
		switch {
		case j.maxBytes > 0 && bytes > 0 && d.held.bytes > j.maxBytes-bytes:
			return fmt.Sprintf("the folder may hold %s (max_mib) and is full", formatBytes(uint64(j.maxBytes)))
		case j.maxFiles > 0 && files > 0 && d.held.files > j.maxFiles-files:
			return fmt.Sprintf("the folder may hold %d files and folders (max_files) and is full", j.maxFiles)
		}
		return ""
	}
	since := time.Since(d.measured)
	if d.measured.IsZero() || since > max(measuredLongAgo, 100*d.took) ||
		over() != "" && since > max(measuredRecently, 10*d.took) {
		if err := d.measure(j); err != nil {
			j.refuse(p, "its quota cannot be held: "+err.Error())
			return false
		}
	}
	if reason := over(); reason != "" {
		j.refuse(p, reason)
		return false
	}
	return true
}

func (d *folder) add(bytes, files int64) {
	d.held.bytes = max(0, d.held.bytes+bytes)
	d.held.files = max(0, d.held.files+files)
}

func (d *folder) measure(j *jail) error {
	begun := time.Now()
	u, err := measure(j.set.context(), j.root, ".")
	if err != nil {
		d.measured = time.Time{}
		return err
	}
	d.held, d.measured, d.took = u, time.Now(), time.Since(begun)
	for _, n := range d.nodes {
		if n.gone {
			d.add(costOf(n.size), 1)
		}
	}
	return nil
}

// opened counts a handle of a file with that many names. The folder is locked, as
// for the two below.
func (d *folder) opened(id fileID, links uint64, size int64) *node {
	n := d.nodes[id]
	if n == nil {
		n = &node{}
		d.nodes[id] = n
	}
	n.handles++
	n.size = size
	if links == 0 && !n.gone {
		n.gone = true
		d.add(costOf(size), 1)
	}
	return n
}

// closed ends a handle.
func (d *folder) closed(id fileID, n *node) {
	if n.handles--; n.handles > 0 {
		return
	}
	delete(d.nodes, id)
	if n.gone {
		d.add(-costOf(n.size), -1)
	}
}

// unlinked counts off what had a name and lost it.
func (d *folder) unlinked(info fs.FileInfo) {
	size := info.Size()
	if info.IsDir() {
		size = 0
	}
	if id, links, ok := identify(info); ok && info.Mode().IsRegular() && links == 1 {
		if n := d.nodes[id]; n != nil {
			n.gone, n.size = true, size
			return
		}
	}
	d.add(-costOf(size), -1)
}

// measure walks what is below dir, which does not count itself. It is bounded by
// maxMeasured and ends with ctx.
func measure(ctx context.Context, root *os.Root, dir string) (usage, error) {
	var u usage
	type level struct {
		path  string
		depth int
	}
	for todo := []level{{dir, 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		u.depth = max(u.depth, at.depth)
		if err := ctx.Err(); err != nil {
			return u, err
		}
		f, err := root.OpenFile(at.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) && at.depth > 0 {
			continue
		}
		if err != nil {
			return u, fmt.Errorf("a folder in it cannot be read (%s)", reasonOf(err))
		}
		for {
			entries, err := f.Readdir(256)
			for _, e := range entries {
				u.files++
				u.bytes += measuredCost(e)
				if e.IsDir() {
					todo = append(todo, level{path.Join(at.path, e.Name()), at.depth + 1})
				}
			}
			if u.files > maxMeasured {
				err = fmt.Errorf("it has more than %d files and folders", maxMeasured)
			} else if err == nil {
				err = ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = f.Close()
				return u, err
			}
		}
		_ = f.Close()
	}
	return u, nil
}

// measuredCost is what is found to be there, which can be more than its size says:
// space set aside in advance counts too.
func measuredCost(info fs.FileInfo) int64 {
	if info.IsDir() {
		return blockBytes
	}
	n := costOf(info.Size())
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		n = max(n, st.Blocks*512)
	}
	return n
}
