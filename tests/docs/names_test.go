package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// help is what the program says of a command, which it fails for one that is none.
func help(t *testing.T, words []string) (string, bool) {
	t.Helper()
	args := append(slices.Clone(words), "--help")
	out, err := exec.Command(binary, args...).Output() // #nosec G204 -- our own program
	if err != nil {
		return "", false
	}
	usage := "\n  awaken-host" + strings.Join(append([]string{""}, words...), " ")
	text := string(out)
	return text, strings.Contains(text, usage+" ") || strings.Contains(text, usage+"\n")
}

var (
	programPattern = regexp.MustCompile(`(?:^|[|&;(] *|\) )awaken-host((?: +[^|&;>]+)?)`)
	flagPattern    = regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z0-9-]*)`)
	commandWord    = regexp.MustCompile(`^[a-z]+$`)
	helpFlag       = regexp.MustCompile(`(?m)^ +(?:(-[a-z]), )?(--[a-z0-9-]+)`)
)

// TestCommandsAndFlags: every command that is named is one, and has the flags it is
// named with.
func TestCommandsAndFlags(t *testing.T) {
	known := map[string]string{}
	all := map[string]bool{}
	for _, name := range documents(t) {
		d := parse(t, name)
		d.words(func(line int, text string) {
			for _, span := range spans(text) {
				for _, m := range programPattern.FindAllStringSubmatch(span, -1) {
					var words []string
					rest := strings.Fields(m[1])
					for len(rest) > 0 && strings.HasPrefix(rest[0], "-") { // flags before the command
						rest = rest[1:]
					}
					for _, w := range rest {
						if !commandWord.MatchString(w) {
							break
						}
						next := append(slices.Clone(words), w)
						key := strings.Join(next, " ")
						if known[key] == "" {
							text, ok := help(t, next)
							if !ok {
								break
							}
							known[key] = text
						}
						words = next
					}
					if len(words) == 0 {
						if len(rest) > 0 {
							t.Errorf("%s:%d: %q names no command", name, line, span)
						}
						continue
					}
					text := known[strings.Join(words, " ")]
					if strings.Contains(text, "[command]") && len(rest) > len(words) {
						t.Errorf("%s:%d: %q names no command of %s", name, line, span, strings.Join(words, " "))
					}
					for _, f := range flagPattern.FindAllStringSubmatch(m[1], -1) {
						if !hasFlag(text, f[1]) {
							t.Errorf("%s:%d: %s has no flag %s", name, line, strings.Join(words, " "), f[1])
						}
					}
				}
			}
		})
	}
	if len(known) < 15 {
		t.Errorf("only %d commands are named", len(known))
	}
	for _, text := range known {
		for _, m := range helpFlag.FindAllStringSubmatch(text, -1) {
			all[m[1]], all[m[2]] = true, true
		}
	}
	// A flag by itself must be one of some command.
	for _, name := range documents(t) {
		for i, l := range parse(t, name).prose {
			for _, span := range spans(l) {
				if strings.HasPrefix(span, "-") && !all[strings.Fields(span)[0]] {
					t.Errorf("%s:%d: no command has a flag %s", name, i+1, span)
				}
			}
		}
	}
}

func hasFlag(help, flag string) bool {
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		if m[1] == flag || m[2] == flag {
			return true
		}
	}
	return false
}

var (
	makePattern   = regexp.MustCompile(`^make ([a-z-]+)$`)
	targetPattern = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

func TestMakeTargets(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range targetPattern.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, name := range documents(t) {
		parse(t, name).words(func(line int, text string) {
			for _, span := range spans(text) {
				if m := makePattern.FindStringSubmatch(span); m != nil && !targets[m[1]] {
					t.Errorf("%s:%d: there is no target %s", name, line, m[1])
				}
			}
		})
	}
	for _, command := range untried {
		if m := makePattern.FindStringSubmatch(command); m == nil || !targets[m[1]] {
			t.Errorf("%q is no target of the Makefile", command)
		}
	}
}

var (
	testPattern   = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z][A-Za-z0-9]*$`)
	funcPattern   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]*)\(`)
	scriptPattern = regexp.MustCompile(`^[a-z]+\.txtar$`)
)

// TestTestsThatAreNamed: a promise names a test that is there.
func TestTestsThatAreNamed(t *testing.T) {
	there := map[string]bool{}
	walk(t, func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range funcPattern.FindAllStringSubmatch(read(t, name), -1) {
				there[m[1]] = true
			}
		}
		if strings.HasSuffix(name, ".txtar") {
			there[path.Base(name)] = true
		}
	})
	named := 0
	for _, name := range documents(t) {
		for i, l := range parse(t, name).prose {
			for _, span := range spans(l) {
				if !testPattern.MatchString(span) && !scriptPattern.MatchString(span) {
					continue
				}
				named++
				if !there[span] {
					t.Errorf("%s:%d: there is no test %s", name, i+1, span)
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d tests are named", named)
	}
}

// walk visits the files of the repository, but those that tools put there.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == "bin" || strings.HasPrefix(e.Name(), ".") && file != root):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err == nil {
			visit(filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var settingPattern = regexp.MustCompile(`(?m)^([a-z_.]+) `)

// TestEverySettingIsExplained: OPERATIONS.md has every key of a host file.
func TestEverySettingIsExplained(t *testing.T) {
	dir := t.TempDir()
	c := &console{dir: dir, cwd: dir}
	file := c.write(t, "host.toml", "version = 1\n")
	out, err := exec.Command(binary, "config", "show", "-c", file).Output() // #nosec G204 -- our own program
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, "docs/OPERATIONS.md")
	keys := settingPattern.FindAllStringSubmatch(string(out), -1)
	if len(keys) < 15 {
		t.Fatalf("config show lists %d settings:\n%s", len(keys), out)
	}
	for _, m := range keys {
		if !strings.Contains(text, "`"+m[1]+"`") {
			t.Errorf("docs/OPERATIONS.md does not explain %s", m[1])
		}
	}
	explained := regexp.MustCompile("(?m)^\\| `([a-z_]+(?:\\.[a-z_0-9]+)?)` \\|").FindAllStringSubmatch(text, -1)
	for _, m := range explained {
		table, key, nested := strings.Cut(m[1], ".")
		if !nested || table == "ledger" {
			continue
		}
		header := "[" + table + "]"
		if slices.Contains([]string{"plugin", "client_tool", "delegate_tool"}, table) {
			header = "[[" + table + "]]"
		}
		c.write(t, "host.toml", "version = 1\n"+header+"\n"+key+" = \"x\"\n")
		out, _ := exec.Command(binary, "config", "check", "-c", file).CombinedOutput() // #nosec G204 -- our own program
		if strings.Contains(string(out), "is not a known key") {
			t.Errorf("docs/OPERATIONS.md explains %s, which there is not: %s", m[1], out)
		}
	}
}

var codePattern = regexp.MustCompile(`(?m)^\tReason[A-Za-z]+ += "([a-z_]+)"`)

// TestEveryReasonIsExplained: POLICIES.md has every code that the host gives.
func TestEveryReasonIsExplained(t *testing.T) {
	text := read(t, "docs/POLICIES.md")
	codes := 0
	for _, file := range []string{"policy/decision.go", "batch/drive.go"} {
		for _, m := range codePattern.FindAllStringSubmatch(read(t, file), -1) {
			codes++
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("docs/POLICIES.md does not explain %s", m[1])
			}
		}
	}
	if codes < 15 {
		t.Errorf("only %d codes were found", codes)
	}
}

var (
	requirePattern = regexp.MustCompile(`(?m)^\t([^ ]+) v[^ ]+$`)
	columnPattern  = regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9.]+/[^`]+`(?:, )?)+) \\|")
)

// TestEveryDependencyIsExplained: RATIONALE.md has every module that is required
// directly and imported, and no other.
func TestEveryDependencyIsExplained(t *testing.T) {
	required := map[string]bool{} // true: imported
	for _, file := range []string{"go.mod", "examples/wasm-tools/go.mod"} {
		text := strings.ReplaceAll(read(t, file), "\nrequire github", "\n\tgithub")
		for _, m := range requirePattern.FindAllStringSubmatch(text, -1) {
			required[m[1]] = false
		}
	}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "deps_keep") { // holds modules in go.mod that nothing imports yet
			return
		}
		for _, imp := range file.Imports {
			for module := range required {
				if path := strings.Trim(imp.Path.Value, `"`); path == module || strings.HasPrefix(path, module+"/") {
					required[module] = true
				}
			}
		}
	})
	explained := map[string]bool{}
	for _, m := range columnPattern.FindAllStringSubmatch(read(t, "docs/RATIONALE.md"), -1) {
		for _, name := range spans(m[1]) {
			explained[name] = true
			if !required[name] {
				t.Errorf("docs/RATIONALE.md explains %s, which nothing imports", name)
			}
		}
	}
	for name, imported := range required {
		if imported && !explained[name] {
			t.Errorf("docs/RATIONALE.md does not explain %s", name)
		}
	}
}
