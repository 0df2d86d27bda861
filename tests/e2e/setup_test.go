package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// What the tests run with, set by TestMain.
var (
	root    string // of the repository
	binary  string // the program, as it is shipped
	guests  string // misbehaving and slow plugins, unsigned
	plugins string // the example plugins, unsigned
)

const howToBuild = "run: make guests (it needs clang and lld: apt-get install clang lld)"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Under nohup SIGHUP is ignored, also by what is started, unless it is caught here.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		<-hangup
		os.Exit(129)
	}()
	var err error
	if root, err = repository(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	guests, plugins = filepath.Join(root, "bin", "guests"), filepath.Join(root, "bin", "plugins")
	for _, g := range []string{"bad", "slow"} {
		if !built(filepath.Join(guests, g)) {
			if os.Getenv("CI") == "true" {
				fmt.Fprintf(os.Stderr, "the plugin %s is not built in %s; %s\n", g, guests, howToBuild)
				return 1
			}
			fmt.Fprintf(os.Stderr, "skipped: the plugin %s is not built; %s\n", g, howToBuild)
			return 0
		}
	}
	dir, err := os.MkdirTemp("", "awaken-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "awaken-host")
	// The Hand is looked for beside the host.
	for _, program := range []string{"awaken-host", "awaken-hand"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=v0.0.0-e2e", "-o", dir, "./cmd/"+program)
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
	}
	return m.Run()
}

// repository is the folder of go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("go.mod is in no folder above this one")
		}
		dir = up
	}
}

// watch reads the folders that the program is built from. The go command knows the
// files that a test opens, and not those that a build in it does: without this it
// would show the cached result of another program. What is opened outside of a
// test, as in TestMain, does not count.
func watch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "docs", "examples", "tests"}, rel) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func built(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "plugin.toml"))
	return err == nil
}

func TestScripts(t *testing.T) {
	watch(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars,
				"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"),
				"BINARY="+binary)
			env.Values[slotKey{}] = &slot{}
			return nil
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"plugin":  copyPlugin,
			"json":    checkJSON,
			"lines":   checkLines,
			"keys":    checkKeys,
			"setenv":  setFromJSON,
			"tamper":  tamper,
			"bytes":   writeBytes,
			"calls":   writeCalls,
			"holds":   holds,
			"sha256":  setSHA256,
			"start":   start,
			"await":   await,
			"signal":  sendSignal,
			"ended":   ended,
			"website": website,
		},
	})
}

// namespaces reports whether a sandbox in Linux namespaces works here.
var namespaces = sync.OnceValue(func() bool { return exec.Command(binary, "-q", "sandbox", "check", "namespace").Run() == nil })

// condition knows [namespaces], true in CI as well, and [plugin:NAME]: the plugin of the examples or of tests is built. In CI it is true,
// so that a plugin that is not there fails the script.
func condition(cond string) (bool, error) {
	if cond == "namespaces" {
		return os.Getenv("CI") == "true" || namespaces(), nil
	}
	name, ok := strings.CutPrefix(cond, "plugin:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	return os.Getenv("CI") == "true" || built(filepath.Join(plugins, name)) || built(filepath.Join(guests, name)), nil
}
