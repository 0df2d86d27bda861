package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Import is one import of one file.
type Import struct {
	File string // slash separated, from the top of the module
	Line int
	Path string // as written
	Test bool   // of a test file
}

// Graph is what the packages of the module import, by path from the top ("batch").
type Graph map[string][]Import

// LoadGraph reads every Go file of the module at root, whatever its build tags: a
// file for another system is held to the same rules. Like the go command it leaves
// out testdata, nested modules and folders that begin with a dot or underscore; bin
// and node_modules hold what is not ours. Files at the top are no package of ours
// and have a rule of their own.
func LoadGraph(root string) (Graph, error) {
	g := Graph{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			return skipFolder(root, file, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pkg, _, below := cutLast(rel, "/")
		if !below {
			return nil
		}
		imports, err := readImports(file, rel)
		if err != nil {
			return err
		}
		g[pkg] = append(g[pkg], imports...)
		return nil
	})
	return g, err
}

func skipFolder(root, folder, name string) error {
	if folder == root {
		return nil
	}
	if name == "testdata" || name == "bin" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func readImports(file, rel string) ([]Import, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	imports := []Import{}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", rel, spec.Path.Value, err)
		}
		imports = append(imports, Import{
			File: rel, Line: fset.Position(spec.Pos()).Line, Path: path, Test: strings.HasSuffix(rel, "_test.go"),
		})
	}
	return imports, nil
}

// Packages lists the packages of the graph, sorted.
func (g Graph) Packages() []string {
	out := make([]string, 0, len(g))
	for p := range g {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}
