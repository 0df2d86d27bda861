package plugins

import (
	"errors"
	"fmt"
)

// Classes of failure, to be compared with errors.Is. None of them leaves anything
// of the plugin loaded.
var (
	ErrManifest  = errors.New("the manifest is invalid")
	ErrUnsigned  = errors.New("the manifest is not signed")
	ErrUntrusted = errors.New("the signing key is not trusted")
	ErrScope     = errors.New("the signing key may not sign this plugin")
	ErrRevoked   = errors.New("the key or manifest is revoked")
	ErrTampered  = errors.New("the bytes are not the ones vouched for")
	ErrKey       = errors.New("the key file is unusable")
	ErrFile      = errors.New("the file cannot be read or written")
	ErrSettings  = errors.New("the operator's settings do not fit the plugin")
	ErrNames     = errors.New("the tool names do not fit together")
)

// LoadError is every failure of this package to load, sign or register a plugin:
// what File is concerned, what is wrong with it, and what a person can do.
type LoadError struct {
	Class   error // one of the sentinels
	File    string
	Problem string
	Remedy  string
	Err     error // the cause, may be nil
}

// Error is "file: problem; remedy". A manifest's problems name file and line
// themselves.
func (e *LoadError) Error() string {
	var m *manifestError
	if errors.As(e.Err, &m) {
		return m.Error()
	}
	text := fmt.Sprintf("%s: %s", e.File, e.Problem)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (e *LoadError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}
