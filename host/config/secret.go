package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is text that must not be seen: every way to format it, as text, Go
// syntax, JSON or a log attribute, gives "[redacted]". Reveal is the one way out.
// The zero value is empty text. Secrets do not compare with ==.
type Secret struct {
	// A pointer, because fmt prints what an unfit %w is given without asking it.
	text *string
	_    [0]func()
}

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Format writes "[redacted]" for every verb, also for one that fits no text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (Secret) GoString() string { return redacted }

// MarshalText returns "[redacted]", for TOML and the like.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]".
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// LogValue returns "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
