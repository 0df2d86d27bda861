package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// fixed is a source that always gives the same.
type fixed string

func (f fixed) Resolve(context.Context) ([]byte, error) { return []byte(f), nil }
func (fixed) String() string                            { return "a test" }

type broken struct{ err error }

func (b broken) Resolve(context.Context) ([]byte, error) { return nil, b.err }
func (broken) String() string                            { return "a broken test" }

func TestReadSecret(t *testing.T) {
	away := errors.New("it is away")
	for _, c := range []struct {
		name   string
		source SecretSource
		want   string
		words  string
	}{
		{"as it is", fixed(" pass word "), " pass word ", ""},
		{"line end", fixed("password\n"), "password", ""},
		{"line end of Windows", fixed("password\r\n"), "password", ""},
		{"one line end only", fixed("password\n\n"), "password\n", ""},
		{"several lines", fixed("password\none\n"), "password\none", ""},
		{"longest", fixed(strings.Repeat("x", MaxSecretBytes) + "\n"), strings.Repeat("x", MaxSecretBytes), ""},
		{"empty", fixed("\n"), "", "it is empty"},
		{"short", fixed("passwor\n"), "", "it is shorter than 8 bytes"},
		{"long", fixed(strings.Repeat("x", MaxSecretBytes+1)), "", "it is longer than 65536 bytes"},
		{"bytes", fixed("pass\xffword"), "", "it is not text in UTF-8"},
		{"the mark", fixed("redacted"), "", "a word that replaces secrets"},
		{"unreadable", broken{away}, "", "plugin p: secret TOKEN from a broken test: it is away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Redactor{}
			p := &Plugin{Manifest: &Manifest{ID: "p"}, Effective: Capabilities{Secrets: []string{"TOKEN"}}, Secrets: map[string]SecretSource{"TOKEN": c.source}}
			got, err := p.ReadSecret(t.Context(), "TOKEN", r)
			if c.words != "" {
				if err == nil || !strings.Contains(err.Error(), c.words) || got != nil {
					t.Errorf("%q, %v", got, err)
				}
				if source, is := c.source.(fixed); is && len(source) > 1 && len(source) < 100 && strings.Contains(strings.ReplaceAll(err.Error(), "a word that", ""), strings.TrimSpace(string(source))) {
					t.Errorf("the value is shown: %v", err)
				}
				return
			}
			if string(got) != c.want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if text := r.String("<" + c.want + ">"); text != "<[redacted:TOKEN]>" {
				t.Errorf("not known: %s", text)
			}
			if _, err := p.ReadSecret(t.Context(), "OTHER", r); !errors.Is(err, ErrSecretNotGiven) {
				t.Errorf("OTHER: %v", err)
			}
			p.Effective.Secrets = nil
			if _, err := p.ReadSecret(t.Context(), "TOKEN", r); !errors.Is(err, ErrSecretNotGiven) {
				t.Errorf("not effective: %v", err)
			}
		})
	}
}

// What is given counts only where the manifest asks, and is part of what identifies
// the set of tools. The value never shows when a plugin is printed.
func TestSecretsAreEffective(t *testing.T) {
	key := newKey(t)
	f := newFolder(t, asking).sign(key)
	prints := map[string]bool{}
	for _, c := range []struct {
		secrets map[string]SecretSource
		want    string
	}{
		{nil, "[]"},
		{map[string]SecretSource{"TOKEN": fixed("the value")}, "[TOKEN]"},
	} {
		p, err := Load(f.dir, LoadOptions{Trust: key.trust(), Secrets: c.secrets})
		if err != nil {
			t.Fatal(err)
		}
		clear(c.secrets)
		if got := fmt.Sprint(p.Effective.Secrets); got != c.want || len(p.Secrets) != len(p.Effective.Secrets) {
			t.Errorf("effective %s, want %s", got, c.want)
		}
		s, err := NewSnapshot([]*Plugin{p})
		if err != nil {
			t.Fatal(err)
		}
		prints[s.Fingerprint()] = true
	}
	if len(prints) != 2 {
		t.Error("the fingerprint is the same with and without the secret")
	}
}
