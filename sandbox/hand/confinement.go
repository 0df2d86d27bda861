package hand

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// order is what a supervisor is told for q, with the folder that it starts in, which
// the caller closes.
func (c *commands) order(q *wasm.Command) (*order, *os.File, error) {
	name := q.Argv[0]
	o := &order{Argv: q.Argv, OpenFiles: uint64(c.h.limits.OpenFiles), FileBytes: uint64(c.h.limits.WorkspaceMiB) << 20} //nolint:gosec // limits are not negative
	dirs := c.programFolders()
	var err error
	if o.Program, err = c.findProgram(name, dirs); err != nil {
		return nil, nil, err
	}
	if o.Env, err = c.environment(q.Env, dirs); err != nil {
		return nil, nil, err
	}
	if err := c.reach(o, q.Folders); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	folder, err := c.folder(q.Dir)
	if err != nil {
		return nil, nil, err
	}
	return o, folder, nil
}

// folder opens a folder of the workspace. The command enters what was opened, so that
// a link that takes its place leads nowhere.
func (c *commands) folder(dir string) (*os.File, error) {
	name := "."
	if dir != "" {
		var err error
		if name, err = local(dir); err != nil {
			return nil, fmt.Errorf("cwd: %w", err)
		}
	}
	root, err := c.h.workspace()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cwd: %.200q cannot be entered: %w", dir, sandbox.Bare(err))
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		_ = f.Close()
		return nil, fmt.Errorf("cwd: %.200q is no folder", dir)
	}
	return f, nil
}

// defaultFolders are where programs are looked for where the boundary names none.
const defaultFolders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// programFolders are those of the boundary's own PATH, an image's for one, without
// what a call could have filled.
func (c *commands) programFolders() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(cmp.Or(os.Getenv("PATH"), defaultFolders)) {
		if filepath.IsAbs(dir) && !c.changeable(filepath.Clean(dir)) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

// changeable reports whether calls may be able to write what is there.
func (c *commands) changeable(name string) bool {
	for _, k := range c.h.places.known {
		if c.h.places.writable[k.name] && within(k.real, name) || k.name == sandbox.StateDir && within(k.real, name) {
			return true
		}
	}
	return false
}

func (c *commands) findProgram(name string, dirs []string) (string, error) {
	if strings.ContainsRune(name, '/') || name == "." || name == ".." || name == "" {
		return "", fmt.Errorf("%.80q is not the name of a command", name)
	}
	for _, dir := range dirs {
		at := filepath.Join(dir, name)
		real, err := filepath.EvalSymlinks(at)
		if err != nil || c.changeable(real) {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			// By the name that it was found under: programs look at theirs.
			return at, nil
		}
	}
	return "", fmt.Errorf("there is no command %q in this sandbox: it is looked for in %s", name, strings.Join(dirs, ", "))
}

// mayBeSet are the variables that a guest may give a command: what changes how it
// speaks, and names of people and dates for records. Nothing that names a program, a
// library, a file or a place to fetch from.
var mayBeSet = regexp.MustCompile(`^(LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|CI|SOURCE_DATE_EPOCH|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE))$`)

func (c *commands) environment(asked map[string]string, dirs []string) ([]string, error) {
	temp := c.h.places.real(sandbox.TempDir)
	env := map[string]string{
		"PATH": strings.Join(dirs, ":"), "HOME": temp, "TMPDIR": temp, "LANG": "C.UTF-8", "TERM": "dumb",
		"GIT_TERMINAL_PROMPT": "0",
	}
	for name, value := range asked {
		if !mayBeSet.MatchString(name) {
			return nil, fmt.Errorf("env: %.80q cannot be set: LANG, LANGUAGE, LC_*, TZ, TERM, COLUMNS, LINES, NO_COLOR, CI, SOURCE_DATE_EPOCH and Git's names, addresses and dates of author and committer can", name)
		}
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

// deviceFiles may be written by everybody.
var deviceFiles = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm", "/dev/pts"}

// reach says what of the file system the command may use: what its call may, and what
// belongs to the boundary. Where the kernel cannot hold a command to that, one runs
// only for a call that may use all there is.
func (c *commands) reach(o *order, folders map[string]string) error {
	p := c.h.places
	if folders[p.real(sandbox.WorkspaceDir)] == "" {
		return errors.New("the call may not use /workspace, where commands run: the manifest names it in capabilities.paths, and operator and policy leave it")
	}
	if !c.confines {
		for _, target := range append([]string{sandbox.WorkspaceDir}, p.mounts...) {
			want := "ro"
			if p.writable[target] {
				want = "rw"
			}
			if folders[p.real(target)] != want {
				return fmt.Errorf("the kernel of this sandbox cannot keep a command from %s (Landlock), and this call may not use it %q", target, want)
			}
		}
		return nil
	}
	hidden := []string{sandbox.HandDir}
	if c.h.o.Program != "" {
		hidden = append(hidden, c.h.o.Program)
	}
	for _, k := range p.known {
		hidden = append(hidden, k.real)
	}
	for folder, mode := range folders {
		if mode == "rw" {
			o.Write = append(o.Write, folder)
		} else {
			o.Read = append(o.Read, folder)
		}
	}
	o.Write = append(o.Write, p.real(sandbox.TempDir))
	o.Write = append(o.Write, deviceFiles...)
	o.Read = append(o.Read, without("/", hidden)...)
	return nil
}

// without lists what is in dir but for the hidden, which have their own rules or
// none: dir itself where nothing of it is hidden. A folder above a hidden one cannot
// be named, since that would name the hidden one too.
func without(dir string, hidden []string) []string {
	above := false
	for _, h := range hidden {
		if within(h, dir) {
			return nil
		}
		above = above || within(dir, h)
	}
	if !above {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			continue // where it leads has a rule of its own, or none
		}
		list = append(list, without(at, hidden)...)
	}
	return list
}
