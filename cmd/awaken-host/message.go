package main

import (
	"context"
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
func (a *app) readMessage(ctx context.Context, file string) (*standard.Message, error) {
	data, name, err := a.readInput(ctx, file)
	if err != nil {
		return nil, err
	}
	msg, err := standard.ParseMessage(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := checkCallIDs(msg, name); err != nil {
		return nil, err
	}
	return msg, nil
}

// checkCallIDs is what the engine checks too, which does not know the file.
func checkCallIDs(msg *standard.Message, name string) error {
	seen := map[string]int{}
	for i, c := range msg.Calls {
		if err := c.ID.Validate(); err != nil {
			return usagef("%s: call %d: %w", name, i+1, err)
		}
		if first, twice := seen[string(c.ID)]; twice {
			return usagef("%s: calls %d and %d have the same id %q: an answer could not say which of them it is for", name, first, i+1, string(c.ID))
		}
		seen[string(c.ID)] = i + 1
	}
	return nil
}

// readInput returns what is in file, and a name for it in messages.
func (a *app) readInput(ctx context.Context, file string) (data []byte, name string, err error) {
	name = file
	if file == "-" {
		name = "standard input"
		if isTerminal(a.stdin) {
			a.say("reading standard input; end it with Ctrl-D")
		}
	}
	data, err = interruptibly(ctx, func() ([]byte, error) {
		in := a.stdin
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		return io.ReadAll(io.LimitReader(in, maxInputBytes+1))
	})
	switch {
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("interrupted while reading %s: nothing ran", name)
	case err != nil:
		return nil, "", usagef("%s cannot be read: %w", name, err)
	case len(data) > maxInputBytes:
		return nil, "", usagef("%s is longer than %d MiB, the most a message may have", name, maxInputBytes>>20)
	}
	return data, name, nil
}

// interruptibly returns what read does, or an error as soon as ctx ends. A read
// from a pipe or a terminal cannot be ended: it is left behind, and the process
// is about to exit.
func interruptibly(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type outcome struct {
		data []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		data, err := read()
		done <- outcome{data, err}
	}()
	select {
	case o := <-done:
		return o.data, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
