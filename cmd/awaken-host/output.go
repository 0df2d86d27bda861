package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// The formats of -o. Without it, each command has its own.
const (
	formatDefault = ""
	formatJSON    = "json"
	formatTable   = "table"
)

// write puts a result on standard output. A result that did not reach anybody is an
// error: status 0 would say that it did.
func (a *app) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := a.stdout.Write(p)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe):
		return errors.New("the result was not read: who reads standard output has closed it. What is committed stays")
	}
	return fmt.Errorf("the result cannot be written to standard output: %w. What is committed stays", err)
}

// writeJSON writes a JSON value: indented for a terminal, one line for a program.
func (a *app) writeJSON(raw []byte) error {
	raw = visibleJSON(raw)
	var b bytes.Buffer
	if a.onTerminal {
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return err
		}
	} else {
		b.Write(raw)
	}
	b.WriteByte('\n')
	return a.write(b.Bytes())
}

// writeValue writes v as JSON.
func (a *app) writeValue(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.writeJSON(bytes.TrimSpace(b.Bytes()))
}

// writeTable writes a table, or says on standard error that it has no rows.
func (a *app) writeTable(t *table, none string) error {
	if len(t.rows) == 0 {
		a.say("%s", none)
		return nil
	}
	return a.write([]byte(t.render(a.width)))
}
