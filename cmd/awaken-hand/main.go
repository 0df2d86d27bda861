// Command awaken-hand is what runs inside a sandbox: it serves one host over its
// standard input and output. See package hand.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox/hand"
)

var version = "unknown" // set by the linker

const usage = `usage: awaken-hand COMMAND

What runs inside a sandbox of awaken-host, which starts it.

  serve [--ready]   serve the host on standard input and output
  wait              be process 1: reap what ends, end on SIGTERM
  install FILE      copy this program to FILE
  compile DIR       put the machine code of the plugin on standard input into DIR
  probe             print what holds here, in JSON
  oomkills          print how many processes the kernel killed here for memory
  version           print the version
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	var err error
	switch name, args := args[0], args[1:]; name {
	case "serve":
		err = serve(args)
	case hand.SuperviseArg:
		return hand.Supervise()
	case hand.NeedlessArg:
		return hand.Needless()
	case "wait":
		err = hand.Wait()
	case "install":
		if len(args) != 1 {
			fmt.Fprint(os.Stderr, usage)
			return 2
		}
		err = hand.Install(args[0])
	case "compile":
		if len(args) != 1 {
			fmt.Fprint(os.Stderr, usage)
			return 2
		}
		err = hand.Compile(args[0], os.Stdin)
	case "probe":
		err = hand.Probe(context.Background(), os.Stdout)
	case "oomkills":
		var n uint64
		if n, err = hand.OOMKills(); err == nil {
			fmt.Println(n)
		}
	case "version", "--version":
		fmt.Println(version)
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "awaken-hand: unknown command %q\n%s", name, usage)
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "awaken-hand:", err)
		return 1
	}
	return 0
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	ready := flags.Bool("ready", false, "say on standard error that the host can begin")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("this program's file is not known: %w", err)
	}
	// Nothing but frames may get to the host: what anything else prints goes to
	// standard error.
	out := os.Stdout
	os.Stdout = os.Stderr
	if err := hand.Harden(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if *ready {
		fmt.Fprintln(os.Stderr, hand.Ready)
	}
	return hand.Serve(ctx, stdio{os.Stdin, out}, hand.Options{
		Version: version, Program: program, OwnProcess: true,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// stdio is the connection to the host.
type stdio struct {
	io.ReadCloser
	out io.WriteCloser
}

func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

func (s stdio) Close() error {
	err := s.out.Close()
	if in := s.ReadCloser.Close(); err == nil {
		err = in
	}
	return err
}
