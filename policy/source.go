package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// source is one file as it was read, once: what is compiled is what the revision
// is made of.
type source struct {
	file string   // as given by the operator, for messages and as the module's name
	name string   // relative to the given path, slash separated, part of the revision
	dirs []string // where a data file's document hangs under data
	raw  []byte
}

func (s *source) rego() bool { return strings.HasSuffix(s.name, ".rego") }

// reads reports whether a file is read: Rego or data. Tests are left out.
func reads(name string) bool {
	switch filepath.Ext(name) {
	case ".rego":
		return !isTest(name)
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

// reading is what lies under the paths at one time.
type reading struct {
	policy []source // in a stable order
	tests  []source // likewise; empty unless they were asked for
	unread Problems // a warning for each file left out that looks like policy
}

// reader walks the paths and collects.
type reader struct {
	ctx      context.Context // of one call of readSources
	tests    bool            // read tests too
	out      []source        // policy and tests
	problems Problems
	aside    []unread
	seen     map[string]bool // files read, by their name without links
	above    []fs.FileInfo   // folders around this place
	entries  int
	bytes    int64
	stopped  error // set: the rest is not looked at
}

// unread is a file that looks like policy and is left out.
type unread struct {
	real    string
	problem Problem
}

var errStop = errors.New("a limit was reached")

// readSources reads every policy and data file under paths, and the tests beside them
// if they are asked for. A file reached twice counts once. Hidden files and folders
// are left out, as OPA does; links are followed, so that a linked policy cannot be
// missed. An error that is not Problems is that of ctx.
func readSources(ctx context.Context, paths []string, tests bool) (*reading, error) {
	if len(paths) == 0 {
		return nil, Problems{{Message: "no policy: set paths under [policy] in host.toml to a folder or file with .rego files"}}
	}
	r := &reader{ctx: ctx, tests: tests, seen: map[string]bool{}}
	for _, p := range paths {
		if p == "" {
			r.fail("", "paths under [policy] in host.toml has an empty entry; remove it")
			continue
		}
		before := len(r.out)
		r.walk(filepath.Clean(p), "", nil)
		if len(r.out) == before && len(r.problems) == 0 && r.stopped == nil && !seenUnder(r.seen, p) {
			r.fail(p, "has no .rego, .json or .yaml file; write one (awaken-host init shows a starter policy) or remove it from paths under [policy] in host.toml")
		}
	}
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	found := &reading{}
	for _, u := range r.aside {
		// Some mounts keep the files in a hidden folder and links to them in sight.
		if !r.seen[u.real] {
			found.unread = append(found.unread, u.problem)
		}
	}
	if len(r.problems) > 0 {
		return nil, append(r.problems, found.unread...)
	}
	slices.SortFunc(r.out, func(a, b source) int {
		return strings.Compare(a.name+"\x00"+a.file, b.name+"\x00"+b.file)
	})
	for _, s := range r.out {
		if isTest(s.name) {
			found.tests = append(found.tests, s)
		} else {
			found.policy = append(found.policy, s)
		}
	}
	return found, nil
}

func (r *reader) fail(file, format string, a ...any) {
	r.problems = append(r.problems, Problem{File: file, Message: fmt.Sprintf(format, a...)})
}

// goOn counts an entry and reports whether there is leave to look at it.
func (r *reader) goOn(file string) bool {
	if r.stopped != nil {
		return false
	}
	if r.stopped = r.ctx.Err(); r.stopped != nil {
		return false
	}
	if r.entries++; r.entries > maxEntries {
		r.stopped = errStop
		r.fail(file, "is one too many: the paths under [policy] in host.toml hold more than %d files and folders; name the policy's own folder", maxEntries)
	}
	return r.stopped == nil
}

func (r *reader) walk(file, name string, dirs []string) {
	if !r.goOn(file) {
		return
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		r.fail(file, "cannot be read: %v; check paths under [policy] in host.toml", cause(err))
	case info.IsDir():
		r.folder(file, name, dirs, info)
	case !reads(file) && (!r.tests || !isTest(file) || len(r.above) == 0):
		if len(r.above) == 0 {
			r.fail(file, "is not a policy: .rego, .json, .yaml and .yml files and folders are read, _test.rego files are not")
		} else if info.Mode().IsRegular() {
			r.leave(file)
		}
	case special(info.Mode()) != "":
		r.fail(file, "is %s, not a file; remove it, or name the policy's own files under [policy] in host.toml", special(info.Mode()))
	default:
		r.file(file, name, dirs)
	}
}

func (r *reader) folder(file, name string, dirs []string, info fs.FileInfo) {
	if r.within(info) {
		r.fail(file, "leads back to a folder that it is in; remove the link")
		return
	}
	if len(r.above) > maxFolderDepth {
		r.fail(file, "is more than %d folders deep; move it up", maxFolderDepth)
		return
	}
	entries, err := os.ReadDir(file)
	if err != nil {
		r.fail(file, "cannot be read: %v", cause(err))
		return
	}
	sub := dirs
	if len(r.above) > 0 {
		sub = append(slices.Clip(dirs), filepath.Base(file))
	}
	r.above = append(r.above, info)
	for _, e := range entries {
		below := filepath.Join(file, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			r.hidden(below)
			continue
		}
		r.walk(below, strings.TrimPrefix(name+"/"+e.Name(), "/"), sub)
	}
	r.above = r.above[:len(r.above)-1]
}

// within reports whether a folder is one of those around this place.
func (r *reader) within(folder fs.FileInfo) bool {
	return slices.ContainsFunc(r.above, func(up fs.FileInfo) bool { return os.SameFile(up, folder) })
}

func (r *reader) file(file, name string, dirs []string) {
	real, err := realName(file)
	if err != nil {
		r.fail(file, "cannot be read: %v", cause(err))
		return
	}
	if r.seen[real] {
		return
	}
	r.seen[real] = true
	raw, err := readRegular(file, maxFileBytes)
	switch r.bytes += int64(len(raw)); {
	case errors.Is(err, errTooLarge):
		r.fail(file, "is larger than %d MiB; split it, or take it out of the policy", maxFileBytes>>20)
	case err != nil:
		r.fail(file, "cannot be read: %v", cause(err))
	case r.bytes > maxTotalBytes:
		r.stopped = errStop
		r.fail(file, "does not fit: the policy is larger than %d MiB in all; take data out of it", maxTotalBytes>>20)
	case bytes.HasPrefix(raw, []byte("\ufeff")):
		r.fail(file, "starts with a byte order mark; save it as UTF-8 without one")
	case !utf8.Valid(raw):
		r.fail(file, "is not UTF-8; save it as UTF-8")
	default:
		if name == "" {
			name = filepath.Base(file)
		}
		r.out = append(r.out, source{file: filepath.ToSlash(file), name: name, dirs: dirs, raw: raw})
	}
}

// leave says of a file in sight that is not read whether it looks like policy. A
// rule to block in it would be lost without a word.
func (r *reader) leave(file string) {
	name := filepath.Base(file)
	lower := strings.ToLower(name)
	switch {
	case isTest(lower):
	case reads(lower):
		r.fail(file, "is not read: endings count in lower case only; rename it to %s", name[:len(name)-len(filepath.Ext(name))]+filepath.Ext(lower))
	case strings.Contains(lower, ".rego") && !strings.HasSuffix(name, "~"): // those are backups of editors
		r.putAside(file, "is not read, since its name does not end in .rego; rename it, or move it out of the policy folder")
	}
}

// hidden notes files below a hidden name that would be read if they were in sight.
func (r *reader) hidden(file string) {
	if !r.goOn(file) {
		return
	}
	info, err := os.Stat(file)
	if err != nil {
		return // such as the lock of an editor, a link to nowhere
	}
	name := filepath.Base(file)
	switch {
	case info.Mode().IsRegular() && reads(strings.ToLower(name)) && !isTest(strings.ToLower(name)):
		r.putAside(file, "is not read, since it is hidden: names that start with a dot are left out; rename it, or move it out of the policy folder")
	case info.IsDir() && !r.within(info) && len(r.above) <= maxFolderDepth && !slices.Contains(versionControl, name):
		entries, err := os.ReadDir(file)
		if err != nil {
			r.putAside(file, "is not read, since it is hidden, and cannot be looked into")
		}
		r.above = append(r.above, info)
		for _, e := range entries {
			r.hidden(filepath.Join(file, e.Name()))
		}
		r.above = r.above[:len(r.above)-1]
	}
}

// versionControl are folders that hold other versions of what is in sight.
var versionControl = []string{".git", ".hg", ".svn", ".jj"}

func (r *reader) putAside(file, message string) {
	real, err := realName(file)
	if err != nil {
		real = file
	}
	r.aside = append(r.aside, unread{real, Problem{File: filepath.ToSlash(file), Message: message}})
}

// realName is the absolute name without links.
func realName(file string) (string, error) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

// seenUnder reports whether another path has contributed the files of p already.
func seenUnder(seen map[string]bool, p string) bool {
	real, err := realName(p)
	if err != nil {
		return false
	}
	for f := range seen {
		if f == real || strings.HasPrefix(f, real+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// cause drops the path from a file error: the message names it already.
func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
