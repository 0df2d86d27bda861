package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// BundleAlgorithms are the ways to sign a bundle that this host accepts: OPA's, without
// those that use one secret on both sides, since who can verify could sign too.
func BundleAlgorithms() []string {
	return []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
}

// loadedKey is a key with what its file holds.
type loadedKey struct {
	BundleKey
	pem string
}

// loadKeys reads the keys of a bundle. at is how messages call the bundle.
func loadKeys(at string, keys []BundleKey) ([]loadedKey, Problems) {
	var out []loadedKey
	var problems Problems
	for _, k := range keys {
		raw, err := readRegular(k.File, 64<<10)
		if err == nil {
			err = checkKey(raw, k.Algorithm)
		}
		if err != nil {
			problems = append(problems, Problem{File: k.File, Message: fmt.Sprintf("key %s of %s cannot be used: %v", k.ID, at, cause(err))})
			continue
		}
		out = append(out, loadedKey{k, string(raw)})
	}
	return out, problems
}

// checkKey demands one public key that fits the algorithm.
func checkKey(raw []byte, algorithm string) error {
	if !slices.Contains(BundleAlgorithms(), algorithm) {
		return fmt.Errorf("the algorithm %q is not known; write one of %s", algorithm, strings.Join(BundleAlgorithms(), ", "))
	}
	block, rest := pem.Decode(raw)
	if block == nil {
		return errors.New("it is not in PEM form")
	}
	if next, _ := pem.Decode(rest); next != nil {
		return errors.New("it holds more than one key; give each a file of its own")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		if strings.Contains(block.Type, "PRIVATE") {
			return errors.New("it is a private key: whoever reads this file could sign; put the public key here, and the private one out of the host's reach")
		}
		return fmt.Errorf("it holds %q, not a public key", block.Type)
	}
	if err != nil {
		return err
	}
	fits := false
	switch key.(type) {
	case *rsa.PublicKey:
		fits = strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		fits = strings.HasPrefix(algorithm, "ES")
	}
	if !fits {
		return fmt.Errorf("it is no key for %s", algorithm)
	}
	return nil
}

// signedBy finds the key that signed the archive, and how OPA's reader is to verify
// it: nil for an unsigned bundle that is let in.
func signedBy(files []packed, o *BundleOptions, keys []loadedKey) (string, *bundle.VerificationConfig, error) {
	i := slices.IndexFunc(files, func(f packed) bool { return bundle.IsSignaturesFile(f.name) })
	switch {
	case i < 0 && o.AllowUnsigned:
		return "", nil, nil
	case i < 0:
		return "", nil, errors.New("is not signed: it has no .signatures.json; sign it (opa build --signing-key), or set allow_unsigned = true where it comes from a place that only you write to")
	case len(keys) == 0:
		return "", nil, errors.New("is signed, and there is no key to verify it with: name the public key under keys of its [[policy.bundle]] in host.toml")
	}
	var sc bundle.SignaturesConfig
	dec := json.NewDecoder(bytes.NewReader(files[i].raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&sc); err != nil {
		return "", nil, fmt.Errorf("has a .signatures.json that cannot be read: %w", err)
	}
	if sc.Plugin != "" && sc.Plugin != "_default" { // what OPA writes for its own
		return "", nil, fmt.Errorf("is signed by the plugin %q, which this host does not have; sign it with a key", clip(sc.Plugin, 80))
	}
	var why []string
	for _, k := range keys {
		config, err := verification(k)
		if err == nil {
			if _, err = bundle.VerifyBundleSignature(sc, config); err == nil {
				return k.ID, config, nil
			}
		}
		why = append(why, fmt.Sprintf("%s: %v", k.ID, err))
	}
	return "", nil, fmt.Errorf("is signed by none of the keys of its [[policy.bundle]] in host.toml (%s)", clip(strings.Join(why, "; "), maxMessageBytes))
}

// verification makes OPA use this key, whichever the signature names: all that are
// configured are trusted alike, and the name is not covered by anything.
func verification(k loadedKey) (*bundle.VerificationConfig, error) {
	config := bundle.NewVerificationConfig(nil, k.ID, k.Scope, nil)
	err := config.ValidateAndInjectDefaults(map[string]*bundle.KeyConfig{
		k.ID: {Key: k.pem, Algorithm: k.Algorithm, Scope: k.Scope},
	})
	return config, err
}

// strictManifest refuses what OPA's reader would pass over in silence or read in
// another way than the compiler will.
func strictManifest(files []packed) error {
	i := slices.IndexFunc(files, func(f packed) bool { return f.name == bundle.ManifestExt })
	if i < 0 {
		return nil
	}
	raw := files[i].raw
	if p := repeatedKey(bundle.ManifestExt, raw, true); p != nil {
		return errors.New(p.Message)
	}
	var m bundle.Manifest
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if dec.More() {
		return errors.New("has more after the end of the document")
	}
	versions := []int{}
	if m.RegoVersion != nil {
		versions = append(versions, *m.RegoVersion)
	}
	for _, v := range m.FileRegoVersions {
		versions = append(versions, v)
	}
	switch {
	case slices.ContainsFunc(versions, func(v int) bool { return v != 1 }):
		return errors.New("asks for another version of Rego than 1; this host reads Rego v1 only")
	case len(m.WasmResolvers) > 0:
		return errors.New("names policy compiled to WebAssembly, which this host does not run; build the bundle with the target rego")
	case len(m.Revision) > maxBundleNameBytes || strings.ContainsFunc(m.Revision, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("has a revision that is longer than %d bytes or has control characters", maxBundleNameBytes)
	case m.Roots != nil && len(*m.Roots) == 0:
		return errors.New("has roots = []: the bundle may hold nothing; name what it owns, or leave roots out")
	}
	return nil
}
