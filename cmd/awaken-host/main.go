// Command awaken-host runs the tool calls of AI agents: made durable, decided by
// policy, run as WebAssembly, published in order. Standard output is the result
// and nothing else; everything said about it goes to standard error.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	crashVisibly()

	// A library that prints must not corrupt the result, so what the rest of the
	// program knows as standard output is standard error.
	stdout := os.Stdout
	os.Stdout = os.Stderr

	// A closed pipe fails the write of a result, it does not end a batch under way.
	// Notify and not Ignore: a child process does not inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	a := newApp(os.Stdin, stdout, os.Stderr)
	os.Exit(a.main(os.Args[1:]))
}

// crashVisibly lets a crash of the program end it by SIGABRT: a full disk under
// a mapped file, a bug, SIGQUIT. Go alone would exit with status 2, which here says
// that nothing ran. No core is written, it would have everything in it.
func crashVisibly() {
	debug.SetTraceback("crash")
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}
