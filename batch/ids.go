package batch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RunID names a run: [A-Za-z0-9._-], 1 to 128 bytes, not "." or "..".
type RunID string

// CallID is the provider's name for a call. It is unique within a batch, is
// echoed to the model, and is never used as an idempotency key.
type CallID string

// ToolID is the name under which the model sees a tool: [a-zA-Z0-9_-], at most
// 64 bytes.
type ToolID string

// BatchID is "<run>/<step>".
type BatchID string

// OperationID is "<run>/<step>/<index>", the idempotency key of a call. It stays
// the same over every attempt and restart.
type OperationID string

// TicketID names a ticket; same characters as a RunID.
type TicketID string

// MaxIDBytes bounds RunID, TicketID and CallID.
const MaxIDBytes = 128

// ErrBadID reports an identifier outside its character set or length.
var ErrBadID = errors.New("bad identifier")

func validName(kind, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty: %w", kind, ErrBadID)
	case len(s) > MaxIDBytes:
		return fmt.Errorf("%s is %d bytes, at most %d are allowed: %w", kind, len(s), MaxIDBytes, ErrBadID)
	case s == "." || s == "..":
		return fmt.Errorf("%s %q is reserved: %w", kind, s, ErrBadID)
	}
	for i, c := range s {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return fmt.Errorf("%s %q has %s at byte %d, allowed are A-Z a-z 0-9 . _ -: %w", kind, s, character(s[i:]), i, ErrBadID)
	}
	return nil
}

// character names the first character of s, a byte where it is not UTF-8.
func character(s string) string {
	switch r, n := utf8.DecodeRuneInString(s); {
	case r == utf8.RuneError && n == 1:
		return fmt.Sprintf("the byte 0x%02x", s[0])
	case r == ' ':
		return "a space"
	default:
		return strconv.QuoteRune(r)
	}
}

// Validate reports whether id is well formed; the error wraps ErrBadID.
func (id RunID) Validate() error { return validName("run id", string(id)) }

// Validate reports whether id is well formed; the error wraps ErrBadID.
func (id TicketID) Validate() error { return validName("ticket id", string(id)) }

// Validate accepts any non-empty string of printable ASCII without spaces, of at
// most MaxIDBytes: providers choose these ids, we only echo them.
func (id CallID) Validate() error {
	if id == "" {
		return fmt.Errorf("call id is empty: %w", ErrBadID)
	}
	if len(id) > MaxIDBytes {
		return fmt.Errorf("call id is %d bytes, at most %d are allowed: %w", len(id), MaxIDBytes, ErrBadID)
	}
	for i, c := range string(id) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("call id %q has %s at byte %d, allowed is printable ASCII without spaces: %w",
				string(id), character(string(id)[i:]), i, ErrBadID)
		}
	}
	return nil
}

// MaxNameBytes bounds the names of people and agents.
const MaxNameBytes = 256

// checkName accepts the name of a person or an agent as it can be shown and
// compared: two that look alike by invisible characters or spaces around them would
// let somebody pass for another. Empty is for the caller to judge. The error wraps
// ErrBadID.
func checkName(kind, s string) error {
	switch {
	case len(s) > MaxNameBytes:
		return fmt.Errorf("%s is %d bytes, at most %d are allowed: %w", kind, len(s), MaxNameBytes, ErrBadID)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8: %w", kind, ErrBadID)
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%s %q has spaces around it: %w", kind, s, ErrBadID)
	}
	for _, r := range s {
		if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return fmt.Errorf("%s %q has the invisible character %U: %w", kind, s, r, ErrBadID)
		}
	}
	return nil
}

// samePerson reports whether two names are of one person: neither case nor the kind and
// number of spaces makes another.
func samePerson(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// checkActor accepts the name of whoever decides, supplies, amends or cancels.
func checkActor(what, by string) error {
	if by == "" {
		return fmt.Errorf("%s: the name of who does this is needed: %w", what, ErrApprover)
	}
	if err := checkName("name", by); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// NewBatchID joins run and step.
func NewBatchID(run RunID, step int) BatchID {
	return BatchID(string(run) + "/" + strconv.Itoa(step))
}

// NewOperationID joins run, step and the call's index in model order (from 0).
func NewOperationID(run RunID, step, index int) OperationID {
	return OperationID(string(run) + "/" + strconv.Itoa(step) + "/" + strconv.Itoa(index))
}

// run is the run the operation belongs to; the error wraps ErrBadID.
func (id OperationID) run() (RunID, error) {
	run, _, ok := strings.Cut(string(id), "/")
	if !ok {
		return "", fmt.Errorf("operation id %q is not <run>/<step>/<index>: %w", string(id), ErrBadID)
	}
	return RunID(run), RunID(run).Validate()
}

// ParseBatchID splits "<run>/<step>"; the error wraps ErrBadID.
func ParseBatchID(id BatchID) (RunID, int, error) {
	run, s, ok := strings.Cut(string(id), "/")
	step, err := strconv.Atoi(s)
	if !ok || err != nil || step < 1 || strconv.Itoa(step) != s {
		return "", 0, fmt.Errorf("batch id %q is not <run>/<step>: %w", string(id), ErrBadID)
	}
	return RunID(run), step, RunID(run).Validate()
}

// ParseOperationID splits "<run>/<step>/<index>"; the error wraps ErrBadID.
func ParseOperationID(id OperationID) (RunID, int, int, error) {
	bad := func() (RunID, int, int, error) {
		return "", 0, 0, fmt.Errorf("operation id %q is not <run>/<step>/<index>: %w", string(id), ErrBadID)
	}
	at := strings.LastIndexByte(string(id), '/')
	if at < 0 {
		return bad()
	}
	index, err := strconv.Atoi(string(id[at+1:]))
	if err != nil || index < 0 || strconv.Itoa(index) != string(id[at+1:]) {
		return bad()
	}
	run, step, err := ParseBatchID(BatchID(id[:at]))
	if err != nil {
		return bad()
	}
	return run, step, index, nil
}
