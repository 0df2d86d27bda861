package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// engines is one set of engines: a folder and what runs out of it.
type engines struct {
	dir      string
	settings settings
	mu       sync.Mutex // guards said, the report while engines start at once
	said     report
}

// settings stay the same for the life of the folder, so that a process that died is
// started again where others expect it.
type settings struct {
	ID     string         `json:"id"`     // ends the names of bridges and control groups
	Report string         `json:"report"` // the file for tests
	Bin    string         `json:"bin"`    // the folder of the Kubernetes programs
	Ports  map[string]int `json:"ports"`
	Nets   map[string]int `json:"nets"` // 10.N.0.0/24, for each engine
}

var names = []string{"docker", "podman", "kube"}

const defaultState = "bin/engines-state"

// A socket's path has at most 107 bytes, and the longest one that an engine makes in
// the folder takes about 40.
const maxDir = 64

func open(state, bin string) (*engines, error) {
	said := filepath.Join(state, "engines.json")
	if state == "" {
		state, said = defaultState, filepath.Join("bin", "engines.json")
	}
	dir, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(dir))
	id := hex.EncodeToString(sum[:3])
	if len(dir) > maxDir && state == defaultState {
		dir = filepath.Join(os.TempDir(), "awaken-engines-"+id)
	}
	if len(dir) > maxDir {
		return nil, fmt.Errorf("%s: a path over %d bytes is too long for the sockets in it; name a shorter one with -state", dir, maxDir)
	}
	e := &engines{dir: dir}
	err = readJSON(e.path("settings.json"), &e.settings)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	e.settings.ID = id
	if e.settings.Report, err = filepath.Abs(said); err != nil {
		return nil, err
	}
	if e.settings.Bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *engines) path(parts ...string) string {
	return filepath.Join(append([]string{e.dir}, parts...)...)
}

// lock keeps two commands from changing one folder at once.
func (e *engines) lock() (func(), error) {
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(e.path("lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// settle chooses what stays the same, once.
func (e *engines) settle() error {
	if e.settings.Ports != nil {
		return nil
	}
	e.settings.Ports = map[string]int{}
	for _, name := range []string{"registry", "etcd", "etcd-peer", "apiserver", "kubelet"} {
		l, err := net.Listen("tcp", "127.0.0.1:0") // held until all are chosen, so that they differ
		if err != nil {
			return err
		}
		defer l.Close()
		e.settings.Ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	e.settings.Nets = map[string]int{}
	n := 200 + int(sha256.Sum256([]byte(e.dir))[0])%40
	for _, name := range names {
		for slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), fmt.Sprintf("10.%d.", n)) }) {
			n++
		}
		e.settings.Nets[name] = n
		n++
	}
	return writeJSON(e.path("settings.json"), e.settings)
}

func (e *engines) up(ctx context.Context, only []string) error {
	for _, name := range only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown engine %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	start := time.Now()
	if err := e.settle(); err != nil {
		return err
	}
	if err := e.installSelf(); err != nil {
		return err
	}
	if err := e.expect(only); err != nil {
		return err
	}
	image, err := e.startRegistry(ctx)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	starters := map[string]func(context.Context, string) error{"docker": e.startDocker, "podman": e.startPodman, "kube": e.startKube}
	failed := map[string]error{}
	for _, name := range names {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		wg.Go(func() {
			err := starters[name](ctx, image)
			e.mu.Lock()
			defer e.mu.Unlock()
			if err != nil {
				failed[name] = err
				e.said.miss(name, firstLine(err))
				fmt.Fprintf(os.Stderr, "%5.1fs  %s: left out: %v\n", time.Since(start).Seconds(), name, err)
			} else {
				delete(e.said.Missing, name)
				fmt.Fprintf(os.Stderr, "%5.1fs  %s is ready\n", time.Since(start).Seconds(), name)
			}
			if err := writeJSON(e.settings.Report, e.said); err != nil {
				failed["report"] = err
			}
		})
	}
	wg.Wait()
	fmt.Fprintln(os.Stderr, "described in", e.settings.Report)
	if err := failed["report"]; err != nil {
		return err
	}
	if len(failed) > 0 && os.Getenv("CI") == "true" {
		return errors.New("not every engine started, and with CI=true none may be missing")
	}
	return nil
}

// expect begins the report. What it said before stays until it turns out otherwise:
// tests may be reading it.
func (e *engines) expect(only []string) error {
	if err := readJSON(e.settings.Report, &e.said); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.said.Program, e.said.State = e.path("engines"), e.dir
	there := map[string]bool{"docker": e.said.Docker != nil, "podman": e.said.Podman != nil, "kube": e.said.Kube != nil}
	for _, name := range names {
		switch {
		case there[name]:
		case len(only) > 0 && !slices.Contains(only, name):
			e.said.miss(name, "not asked for: make engines starts all")
		default:
			e.said.miss(name, "it is being started")
		}
	}
	return nil
}

// say puts an engine that is ready into the report.
func (e *engines) say(put func(*report)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	put(&e.said)
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func (e *engines) status(w io.Writer) error {
	processes, err := e.processes()
	if err != nil {
		return err
	}
	if len(processes) == 0 {
		return fmt.Errorf("%s: nothing was started there", e.dir)
	}
	for _, p := range processes {
		state := "dead"
		if p.alive() {
			state = "running"
		}
		if _, err := fmt.Fprintf(w, "%-16s %8d  %s\n", p.Name, p.PID, state); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(w, "described in", e.settings.Report)
	return err
}

func (e *engines) kill(name string) error {
	p, err := e.process(name)
	if err != nil {
		return err
	}
	if !p.alive() {
		return fmt.Errorf("%s does not run", name)
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return p.gone(10 * time.Second)
}

// installSelf keeps a copy of this program, which serves the registry and which
// tests call, also after "go run" removed its own.
func (e *engines) installSelf() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if self == e.path("engines") {
		return nil
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	part := e.path("engines.part")
	if err := os.WriteFile(part, text, 0o700); err != nil { //nolint:gosec // a program
		return err
	}
	return os.Rename(part, e.path("engines"))
}
