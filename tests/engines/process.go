package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that up started. The time it started at tells it from another that
// got its number later.
type process struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start string `json:"start"` // clock ticks after boot
}

// searchPath has the folders that root's programs are in: a caller's own may lack sbin.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// find is exec.LookPath over searchPath, and says how to get what is missing.
func find(name, pkg string) (string, error) {
	for dir := range strings.SplitSeq(strings.TrimPrefix(searchPath, "PATH="), ":") {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is missing: apt-get install %s", name, pkg)
}

// start starts a process that outlives this one, unless it runs already, and waits
// until ready answers nil.
func (e *engines) start(ctx context.Context, name string, argv []string, ready func(context.Context) error) error {
	if p, err := e.process(name); err == nil && p.alive() {
		return e.await(ctx, name, nil, ready)
	}
	log := e.path("logs", name+".log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // it is to outlive us
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, e.dir
	cmd.Env = []string{searchPath, "HOME=" + e.dir, "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // ends with the process, or with this program
	_, start, err := stat(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s: it ended at once: %w\n%s", name, err, tail(log))
	}
	if err := writeJSON(e.path("processes", name+".json"), process{Name: name, PID: cmd.Process.Pid, Start: start}); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return e.await(ctx, name, exited, ready)
}

func (e *engines) await(ctx context.Context, name string, exited <-chan error, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case status := <-exited:
			return fmt.Errorf("%s ended: %v\n%s", name, status, tail(e.path("logs", name+".log")))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", name, err, tail(e.path("logs", name+".log")))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tail is the end of a log, for an error.
func tail(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return "the end of " + name + ":\n" + strings.Join(lines, "\n")
}

func (e *engines) process(name string) (process, error) {
	var p process
	err := readJSON(e.path("processes", name+".json"), &p)
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%s was not started", name)
	}
	return p, err
}

func (e *engines) processes() ([]process, error) {
	files, err := filepath.Glob(e.path("processes", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []process
	for _, file := range files {
		p, err := e.process(strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (p process) alive() bool {
	state, start, err := stat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

func (p process) gone(within time.Duration) error {
	for deadline := time.Now().Add(within); p.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s, process %d, has not ended within %s", p.Name, p.PID, within)
		}
	}
	return nil
}

// stop asks a process to end, and kills it when it does not.
func (p process) stop(grace time.Duration) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if p.gone(grace) == nil {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return p.gone(grace)
}

// stat reads a process's state and start time.
func stat(pid int) (state, start string, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return "", "", fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return fields[0], fields[19], nil
}

// output runs a command to its end and returns its standard output; an error has
// what it wrote to standard error.
func output(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // our own words
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = []string{searchPath, "HOME=/root", "TMPDIR=/tmp"}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
