// Escape is the program that a hostile tool would run inside a sandbox: each of its
// subcommands tries one way out, and says on standard output what came of it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// attempt tries to get out. What it returns without an error is what it got: it is
// out. A *containedError says that it came as far as a limit, any other error what
// stood in its way.
type attempt func(args []string) (got string, err error)

var attempts = map[string]attempt{
	"read": read, "write": write, "write-system": writeSystem, "replace": replace, "link": link,
	"mknod": mknod, "devices": devices, "mount": mount, "kernel-files": kernelFiles, "by-handle": byHandle,
	"inherited": inherited, "see": see, "signal": signalOthers, "environ": environ, "ptrace": ptrace, "memory-of": memoryOf,
	"channel": channel, "setuid": setuid, "setuid-file": setuidFile, "unshare": unshare, "capabilities": capabilities,
	"keyctl": keyring, "bpf": bpf, "perf": perf, "uring": uring, "userfault": userfault, "module": module, "terminal": terminal,
	"tcp": tcp, "name": name, "dns": dns, "raw": raw, "unix": unixSockets, "bus": bus, "proxy": proxy,
	"forks": forks, "memory": memory, "fill": fill, "flood": flood, "daemon": daemon, "forge": forge,
	"fill-closed": fillClosed, "fill-deep": fillDeep, "fill-removed": fillRemoved, "hares": hares,
}

// containedError is what an attempt ran into.
type containedError struct{ what string }

func (e *containedError) Error() string { return e.what }

func main() {
	if len(os.Args) < 2 || attempts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "escape: name one of its attempts")
		os.Exit(2)
	}
	got, err := attempts[os.Args[1]](os.Args[2:])
	var contained *containedError
	answer := map[string]string{"outcome": "open", "detail": got}
	switch {
	case errors.As(err, &contained):
		answer = map[string]string{"outcome": "contained", "detail": contained.what}
	case err != nil:
		answer = map[string]string{"outcome": "denied", "detail": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}

// anyOf makes attempts until one succeeds; the error tells of all that did not.
func anyOf(tries ...func() (string, error)) (string, error) {
	var all error
	for _, try := range tries {
		got, err := try()
		if err == nil {
			return got, nil
		}
		all = errors.Join(all, err)
	}
	return "", all
}
