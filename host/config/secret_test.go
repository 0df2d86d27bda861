package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// However a secret, or what holds one, is printed, its text does not come out.
func TestSecretNeverPrints(t *testing.T) {
	const text = "hunter2"
	s := NewSecret(text)
	holders := map[string]any{
		"secret":  s,
		"pointer": &s,
		"source":  SecretSource{Command: []Secret{s, s}},
		"plugin":  &Plugin{Path: "p", Config: map[string]Secret{"k": s}, Secrets: map[string]SecretSource{"A": {Command: []Secret{s}}}},
		"config":  &Config{Plugins: []Plugin{{Config: map[string]Secret{"k": s}}}},
		"hidden":  struct{ inner Secret }{s}, // fmt does not call methods of such a field
	}
	for name, v := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%f", "%t", "%c", "%w"} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) {
				t.Errorf("%s with %s: %s", name, verb, out)
			}
		}
		if out, err := json.Marshal(v); err != nil || strings.Contains(string(out), text) {
			t.Errorf("%s as JSON: %s, %v", name, out, err)
		}
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		if strings.Contains(b.String(), text) {
			t.Errorf("%s in the log: %s", name, b.String())
		}
	}
	if s.Reveal() != text {
		t.Errorf("Reveal gives %q", s.Reveal())
	}
	if out := fmt.Sprint(s); out != redacted {
		t.Errorf("printed as %q", out)
	}
}

func TestZeroSecret(t *testing.T) {
	if s := (Secret{}); s.Reveal() != "" || fmt.Sprint(s) != redacted {
		t.Errorf("got %q, printed %v", s.Reveal(), s)
	}
}
