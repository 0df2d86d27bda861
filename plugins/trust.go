package plugins

import (
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"aead.dev/minisign"
)

// Trust is whom the operator believes. It is read only once in use and safe for
// concurrent use.
type Trust struct {
	Keys []TrustedKey
	// Revoked lists key ids (16 hex digits) and manifest digests (64 hex digits)
	// that are refused whatever else vouches for them.
	Revoked []string
	// AllowUnsigned lets in plugins that have no signature file at all. A
	// signature that is there must still be good.
	AllowUnsigned bool
}

// TrustedKey is a public key as LoadKey made it; any other value verifies
// nothing.
type TrustedKey struct {
	ID      string   // 16 upper-case hex digits
	File    string   // where it came from, for messages
	Plugins []string // path.Match patterns of plugin ids it may sign; nil: any

	key    minisign.PublicKey
	loaded bool
}

// Bounds of the small files of a signature scheme.
const (
	maxKeyFileBytes   = 4 << 10
	maxSignatureBytes = 16 << 10
)

func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// LoadKey reads a minisign public key file. Plugins are patterns of the plugin
// ids the key may sign, nil for any. A *LoadError wraps ErrKey.
func LoadKey(file string, plugins []string) (TrustedKey, error) {
	bad := func(problem string, err error) (TrustedKey, error) {
		return TrustedKey{}, &LoadError{Class: ErrKey, File: file, Problem: problem, Err: err,
			Remedy: "name a minisign public key file, restore it or get it again from the author"}
	}
	data, err := readSmall(file, maxKeyFileBytes)
	if err != nil {
		return bad("the key file cannot be read", err)
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText(data); err != nil {
		var secret minisign.PrivateKey
		if minisign.IsEncrypted(data) || secret.UnmarshalText(data) == nil {
			return bad("this is a secret key, keep it private and name the public one", nil)
		}
		return bad("the public key is damaged", err)
	}
	if plugins != nil && len(plugins) == 0 {
		return bad("its list of plugins is empty, leave it out to mean any", nil)
	}
	for _, p := range plugins {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return bad(fmt.Sprintf("the plugin pattern %q is malformed, use names and *, such as acme-*", p), nil)
		}
	}
	return TrustedKey{ID: keyID(key.ID()), File: file, Plugins: slices.Clone(plugins), key: key, loaded: true}, nil
}

// Covers reports whether the key may sign the plugin id.
func (k *TrustedKey) Covers(id string) bool {
	if k.Plugins == nil {
		return true
	}
	return slices.ContainsFunc(k.Plugins, func(p string) bool {
		ok, err := path.Match(p, id)
		return err == nil && ok
	})
}

// Validate reports entries of Revoked that revoke nothing because they are
// malformed.
func (t *Trust) Validate() error {
	for _, r := range t.Revoked {
		if raw, err := hex.DecodeString(r); err != nil || len(raw) != 8 && len(raw) != 32 {
			return &LoadError{Class: ErrSettings, File: "[trust].revoked",
				Problem: fmt.Sprintf("%q is neither a key id nor a manifest digest", clip(r, 80)),
				Remedy:  "write 16 hex digits for a key, 64 for a manifest"}
		}
	}
	return nil
}

func (t *Trust) revoked(what string) bool {
	return slices.ContainsFunc(t.Revoked, func(r string) bool { return strings.EqualFold(r, what) })
}

// readSmall reads a regular file of at most limit bytes.
func readSmall(file string, limit int64) ([]byte, error) {
	f, err := openRegular(func() (*os.File, error) { return os.OpenFile(file, openForRead, 0) })
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, limit)
}
