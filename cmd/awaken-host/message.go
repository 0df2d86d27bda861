package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// maxInputBytes is the most that is read of a message. One byte more is read, so
// that what is longer is refused and not cut.
const maxInputBytes = 64 << 20

// readMessage reads an assistant message from a file, or from standard input for
// "-".
func (a *app) readMessage(file string) (*standard.Message, error) {
	data, name, err := a.readInput(file)
	if err != nil {
		return nil, err
	}
	msg, err := standard.ParseMessage(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return msg, nil
}

func (a *app) readInput(file string) (data []byte, name string, err error) {
	in, name := a.stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, "", usagef("%w: name a file, or - for standard input", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	} else if isTerminal(a.stdin) {
		a.say("reading standard input; end it with Ctrl-D")
	}
	data, err = io.ReadAll(io.LimitReader(in, maxInputBytes+1))
	if err != nil {
		var perr *os.PathError
		if errors.As(err, &perr) {
			return nil, "", usageError{err}
		}
		return nil, "", usagef("%s cannot be read: %w", name, err)
	}
	if len(data) > maxInputBytes {
		return nil, "", usagef("%s is longer than %d MiB, the most a message may have", name, maxInputBytes>>20)
	}
	return data, name, nil
}
