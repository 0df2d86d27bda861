package plugins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// SecretSource is where the value of a secret is read from, each time that a call
// asks for it. It holds no value itself. Safe for concurrent use.
type SecretSource interface {
	// Resolve reads the value and returns soon after ctx ends. Neither the source
	// keeps the bytes nor does its error show any of them. It need not read more than
	// a little above MaxSecretBytes.
	Resolve(ctx context.Context) ([]byte, error)
	// String names the source for operators, such as "environment variable X".
	String() string
}

// ErrSecretNotGiven is the class of asking for a secret that the plugin has not got,
// whether or not there is one of this name for another plugin.
var ErrSecretNotGiven = errors.New("the secret is not given to this plugin")

// ReadSecret returns the value that the plugin's secret has now, without the line
// end that files and commands leave at its end. Before that it makes the value known
// to r. The value is text in UTF-8 of MinSecretBytes to MaxSecretBytes. The error is
// for the operator: it names plugin, secret and source, and shows nothing of the value.
func (p *Plugin) ReadSecret(ctx context.Context, name string, r *Redactor) ([]byte, error) {
	source := p.Secrets[name]
	if source == nil || !slices.Contains(p.Effective.Secrets, name) {
		return nil, fmt.Errorf("plugin %s: secret %q: %w", p.Manifest.ID, clip(name, 80), ErrSecretNotGiven)
	}
	value, err := source.Resolve(ctx)
	if err == nil {
		value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
		err = checkSecretValue(value)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %s: secret %s from %s: %w", p.Manifest.ID, name, source, err)
	}
	r.Add(name, value)
	return value, nil
}

func checkSecretValue(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("it is empty")
	case len(value) < MinSecretBytes:
		return fmt.Errorf("it is shorter than %d bytes, too short to be kept out of results and logs: use a longer one", MinSecretBytes)
	case len(value) > MaxSecretBytes:
		return fmt.Errorf("it is longer than %d bytes: hand the plugin a file or a shorter value", MaxSecretBytes)
	case !utf8.Valid(value):
		return errors.New("it is not text in UTF-8: encode it, in base64 for one, and let the plugin decode it")
	case strings.Contains("[redacted:", string(value)):
		return errors.New("it is a word that replaces secrets: use another one")
	}
	return nil
}

// effectiveSecrets intersects what the manifest asks for with what the operator gives.
func effectiveSecrets(asked []string, given map[string]SecretSource) (names []string, problems []string) {
	for _, name := range sortedKeys(given) {
		switch {
		case !slices.Contains(asked, name):
			problems = append(problems, notAsked("secrets", "secrets", name, asked))
		case given[name] == nil:
			problems = append(problems, fmt.Sprintf("secrets: %q has no source", name))
		default:
			names = append(names, name)
		}
	}
	return names, problems
}

// missingSecrets are the lines of host.toml that would give what was not given.
func (p *Plugin) missingSecrets() string {
	var b strings.Builder
	for _, name := range p.Manifest.Capabilities.Secrets {
		if !slices.Contains(p.Effective.Secrets, name) {
			fmt.Fprintf(&b, "%s = { env = %s }\n", name, tomlString(name))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "[plugin.secrets]\n" + b.String()
}
