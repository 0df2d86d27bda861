package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// app is one run of the program: its streams and the flags that every command
// has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	onTerminal     bool // stdout is one
	errOnTerminal  bool // stderr is one
	width          int  // columns of stdout

	config  string
	dataDir string
	format  string
	verbose bool
	quiet   bool

	// began tells that a command does its own work. What fails before, flags and
	// arguments, is wrong usage.
	began bool
}

// fallbackWidth is the width of a table that goes to no terminal.
const fallbackWidth = 120

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: &lockedWriter{w: stderr}, width: fallbackWidth}
	a.onTerminal, a.errOnTerminal = isTerminal(stdout), isTerminal(stderr)
	if f, ok := stdout.(*os.File); ok && a.onTerminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			a.width = w
		}
	}
	return a
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// lockedWriter keeps lines of logs and of progress whole.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// main runs the command line and returns the exit status.
func (a *app) main(args []string) int {
	ctx, stop := interruptible(context.Background(), func() {
		a.say("stopping: what is committed stays. A second signal exits at once")
	})
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var st status
	if err != nil && !errors.As(err, &st) {
		a.say("%v", err)
	}
	return a.status(err)
}

// do wraps the work of a command.
func (a *app) do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(cmd); err != nil {
			return err
		}
		a.began = true
		return work(cmd.Context(), args)
	}
}

// options are what every way to open a host file is given.
func (a *app) options() standard.Options {
	return standard.Options{Logger: a.logger(), DataDir: a.dataDir}
}

// say writes a message for a person to standard error. What is in it may come
// from guests, from models and from files.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, "awaken-host: %s\n", visibleText(fmt.Sprintf(format, args...)))
}
