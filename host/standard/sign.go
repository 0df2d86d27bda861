package standard

import (
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
)

// GenerateKey makes a minisign key pair for signing plugins; an empty password
// leaves the secret key unencrypted. Existing files are not overwritten.
func GenerateKey(pubFile, keyFile, password string) (keyID string, err error) {
	return plugins.GenerateKey(pubFile, keyFile, password)
}

// Sign signs the plugin in dir with a minisign secret key. An empty module.sha256
// in its manifest is filled in, another than the module's is an error unless
// updateDigest is set. A module that this host would refuse to load is not signed.
func Sign(dir, keyFile, password string, updateDigest bool) (*plugins.SignReport, error) {
	loadable := func(m *plugins.Manifest, module []byte) error {
		if err := wasm.Check(m, module); err != nil {
			return setupError{err}
		}
		return nil
	}
	return plugins.Sign(dir, keyFile, password, plugins.SignOptions{UpdateDigest: updateDigest, Check: loadable})
}

// Verify checks the plugin in dir against the given public key files, or, when
// there are none, against the trust of a host.toml, and reports what it is.
func Verify(dir string, pubFiles []string, configFile string) (*plugins.Report, error) {
	var trust plugins.Trust
	for _, f := range pubFiles {
		k, err := plugins.LoadKey(f, nil)
		if err != nil {
			return nil, err
		}
		trust.Keys = append(trust.Keys, k)
	}
	if len(pubFiles) == 0 {
		cfg, err := LoadConfig(configFile, Options{})
		if err != nil {
			return nil, err
		}
		if trust, err = loadTrust(cfg); err != nil {
			return nil, err
		}
	}
	return plugins.Verify(dir, trust, "")
}
