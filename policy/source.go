package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/util"
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

// maxFolderDepth stops at folders linked into each other.
const maxFolderDepth = 32

// known reports whether a file is read: Rego or data. Tests are left out.
func known(name string) bool {
	switch filepath.Ext(name) {
	case ".rego":
		return !isTest(name)
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

// readSources reads every policy and data file under paths, in a stable order. A
// file reached twice counts once. Hidden files and folders are left out, as OPA
// does; links are followed, so that a linked policy cannot be missed.
func readSources(paths []string) ([]source, error) {
	if len(paths) == 0 {
		return nil, Problems{{Message: "no policy: set paths under [policy] in host.toml to a folder or file with .rego files"}}
	}
	var (
		out      []source
		problems Problems
		seen     = map[string]bool{}
	)
	fail := func(file, format string, a ...any) {
		problems = append(problems, Problem{File: file, Message: fmt.Sprintf(format, a...)})
	}
	var walk func(file, name string, dirs []string, depth int)
	walk = func(file, name string, dirs []string, depth int) {
		info, err := os.Stat(file)
		if err != nil {
			fail(file, "cannot be read: %v; check paths under [policy] in host.toml", cause(err))
			return
		}
		if info.IsDir() {
			if depth > maxFolderDepth {
				fail(file, "is more than %d folders deep; remove the link that leads back to a parent", maxFolderDepth)
				return
			}
			entries, err := os.ReadDir(file)
			if err != nil {
				fail(file, "cannot be read: %v", cause(err))
				return
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					continue
				}
				sub := dirs
				if depth > 0 {
					sub = append(slices.Clip(dirs), filepath.Base(file))
				}
				walk(filepath.Join(file, e.Name()), strings.TrimPrefix(name+"/"+e.Name(), "/"), sub, depth+1)
			}
			return
		}
		if !known(file) {
			if depth == 0 {
				fail(file, "is not a policy: .rego, .json, .yaml and .yml files and folders are read, _test.rego files are not")
			}
			return
		}
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			fail(file, "cannot be read: %v", cause(err))
			return
		}
		if real, err = filepath.Abs(real); err != nil {
			fail(file, "has no absolute path: %v", err)
			return
		}
		if seen[real] {
			return
		}
		seen[real] = true
		raw, err := os.ReadFile(file)
		if err != nil {
			fail(file, "cannot be read: %v", cause(err))
			return
		}
		if name == "" {
			name = filepath.Base(file)
		}
		out = append(out, source{file: filepath.ToSlash(file), name: name, dirs: dirs, raw: raw})
	}
	for _, p := range paths {
		if p == "" {
			fail("", "paths under [policy] in host.toml has an empty entry; remove it")
			continue
		}
		before := len(out)
		walk(filepath.Clean(p), "", nil, 0)
		if len(out) == before && len(problems) == 0 && !seenUnder(seen, p) {
			fail(p, "has no .rego, .json or .yaml file; write one (awaken-host init shows a starter policy) or remove it from paths under [policy] in host.toml")
		}
	}
	if len(problems) == 0 && !slices.ContainsFunc(out, func(s source) bool { return s.rego() }) {
		fail(strings.Join(paths, ", "), "has no .rego file, only data; nothing would be allowed")
	}
	if len(problems) > 0 {
		return nil, problems
	}
	slices.SortFunc(out, func(a, b source) int {
		return strings.Compare(a.name+"\x00"+a.file, b.name+"\x00"+b.file)
	})
	return out, nil
}

// seenUnder reports whether another path has contributed the files of p already.
func seenUnder(seen map[string]bool, p string) bool {
	real, err := filepath.EvalSymlinks(p)
	if err == nil {
		real, err = filepath.Abs(real)
	}
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

// revision identifies what decides: every source by name and content, and the
// built-ins let in. Names are relative, so that moving a policy keeps it.
func revision(sources []source, builtins []string) string {
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, s := range sources {
		add([]byte(s.name))
		add(s.raw)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(builtins)))
	for _, b := range sorted {
		add([]byte(b))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// mergeData builds the data document. A document hangs where its folder is; the
// file's name plays no part, as with opa eval --data.
func mergeData(sources []source) (map[string]any, Problems) {
	data := map[string]any{}
	from := map[string]string{}
	var problems Problems
	for _, s := range sources {
		if s.rego() {
			continue
		}
		var doc any
		var err error
		if filepath.Ext(s.name) == ".json" {
			err = util.UnmarshalJSON(s.raw, &doc)
		} else {
			err = util.Unmarshal(s.raw, &doc)
		}
		if err != nil {
			problems = append(problems, Problem{File: s.file, Line: dataLine(s.raw, err), Message: fmt.Sprintf("is not valid: %v", err)})
			continue
		}
		for i := len(s.dirs) - 1; i >= 0; i-- {
			doc = map[string]any{s.dirs[i]: doc}
		}
		obj, ok := doc.(map[string]any)
		if !ok {
			problems = append(problems, Problem{File: s.file, Message: "must be an object at the top level: its keys become names under data"})
			continue
		}
		if at, ok := graft(data, obj, nil, s.file, from); !ok {
			problems = append(problems, Problem{File: s.file, Message: fmt.Sprintf(
				"sets data.%s, which %s sets too; keep one of them", strings.Join(at, "."), setBy(at, from))})
		}
	}
	if at, ok := data["awaken"]; ok {
		awaken, isObject := at.(map[string]any)
		if !isObject {
			problems = append(problems, Problem{Message: "data.awaken must be an object: the gate lives under it"})
		} else if _, ok := awaken["gate"]; ok {
			problems = append(problems, Problem{Message: "data.awaken.gate is the host's own and cannot be set by a data file; use another name"})
		}
	}
	return data, problems
}

// graft merges src, read from file, into dst. It returns the path of the first key
// that both set. Whoever set a subtree is noted in from at its root.
func graft(dst, src map[string]any, at []string, file string, from map[string]string) ([]string, bool) {
	for _, k := range slices.Sorted(maps.Keys(src)) {
		here := append(slices.Clip(at), k)
		old, taken := dst[k]
		if !taken {
			dst[k] = src[k]
			from[strings.Join(here, ".")] = file
			continue
		}
		a, okA := old.(map[string]any)
		b, okB := src[k].(map[string]any)
		if !okA || !okB {
			return here, false
		}
		if p, ok := graft(a, b, here, file, from); !ok {
			return p, false
		}
	}
	return nil, true
}

// setBy finds the file that set the value at a path, or a value above it.
func setBy(at []string, from map[string]string) string {
	for n := len(at); n > 0; n-- {
		if f, ok := from[strings.Join(at[:n], ".")]; ok {
			return f
		}
	}
	return "another file"
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// dataLine finds the line an error of a data file speaks of; 0 when it does not
// say.
func dataLine(raw []byte, err error) int {
	var se *json.SyntaxError
	if errors.As(err, &se) && se.Offset <= int64(len(raw)) {
		return 1 + bytes.Count(raw[:se.Offset], []byte("\n"))
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}
