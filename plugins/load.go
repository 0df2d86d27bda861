package plugins

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
)

// MaxModuleBytes bounds a plugin's module.
const MaxModuleBytes = 256 << 20

// LoadOptions is what the operator says about one plugin.
type LoadOptions struct {
	Trust Trust
	// Pin is the hex SHA-256 of plugin.toml the operator vouches for; empty: none.
	// A wrong one is refused whatever the signature says.
	Pin      string
	Grant    *Grant // nil: pure compute
	Limits   Limits // zero fields: DefaultLimits
	Config   map[string]string
	Secrets  map[string]SecretSource   // by the name the manifest asks for
	Clock    Clock                     // empty: ClockReal
	Random   string                    // what ParseRandom reads
	Warm     int                       // instances made ahead
	Recovery map[string]RecoveryChoice // by tool id within the plugin
	Names    map[string]string         // tool id within the plugin to the name the model sees
	// Source names the place these options come from, for messages; empty: the
	// plugin's folder.
	Source string
}

// Load reads the plugin in dir, verifies it and works out what it may use here.
// Every file is read once, through a root no link leaves, and what was verified is
// what is returned. Nothing is kept of o. Every error is a *LoadError.
//
// The order matters: the manifest is only parsed once its bytes are vouched for
// by a trusted key, a pin or the opt-in.
func Load(dir string, o LoadOptions) (*Plugin, error) {
	if err := o.Trust.Validate(); err != nil {
		return nil, err
	}
	limits, err := o.limits(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: dir, Problem: "the plugin's folder cannot be opened", Err: err,
			Remedy: "check the path of this [[plugin]]"}
	}
	defer root.Close()

	manifestFile := filepath.Join(dir, ManifestFile)
	text, err := readIn(root, ManifestFile, MaxManifestBytes)
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: manifestFile, Problem: "the manifest cannot be read", Err: err,
			Remedy: "a plugin folder holds " + ManifestFile + ", " + SignatureFile + " and the module"}
	}
	p := &Plugin{Dir: dir, Digest: hexSum(text), OutputMiB: limits.OutputMiB}
	keys, err := o.vouch(p, root, text)
	if err != nil {
		return nil, err
	}
	if p.Manifest, err = ParseManifest(manifestFile, text); err != nil {
		return nil, &LoadError{Class: ErrManifest, File: manifestFile, Err: err}
	}
	if err := o.settle(p, keys, filepath.Join(dir, SignatureFile)); err != nil {
		return nil, err
	}
	if p.Manifest.Module.SHA256 == "" {
		return nil, &LoadError{Class: ErrManifest, File: manifestFile, Problem: "module.sha256 is empty",
			Remedy: `run "awaken-host plugin sign", which fills it in`}
	}
	if p.Module, err = readModule(root, dir, p.Manifest); err != nil {
		return nil, err
	}
	if sum := hexSum(p.Module); sum != p.Manifest.Module.SHA256 {
		return nil, &LoadError{Class: ErrTampered, File: filepath.Join(dir, filepath.FromSlash(p.Manifest.Module.Path)),
			Problem: fmt.Sprintf("the module's SHA-256 is %s, the manifest names %s", sum, p.Manifest.Module.SHA256),
			Remedy:  "restore the module that was signed, or, if you built it, sign the plugin again"}
	}
	if err := o.apply(p, limits); err != nil {
		return nil, err
	}
	return p, nil
}

func readModule(root *os.Root, dir string, m *Manifest) ([]byte, error) {
	module, err := readIn(root, m.Module.Path, MaxModuleBytes)
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: filepath.Join(dir, filepath.FromSlash(m.Module.Path)),
			Problem: "the module cannot be read", Err: err,
			Remedy: "it must be a file of at most 256 MiB inside the plugin's folder, as module.path says"}
	}
	return module, nil
}

// vouch decides from the manifest's bytes alone who stands for them, and sets
// TrustedBy and Signer. It returns the trusted keys that verify the signature;
// whether one may sign this plugin is settled once its id is known.
func (o *LoadOptions) vouch(p *Plugin, root *os.Root, text []byte) ([]TrustedKey, error) {
	manifestFile, signatureFile := filepath.Join(p.Dir, ManifestFile), filepath.Join(p.Dir, SignatureFile)
	if o.Trust.revoked(p.Digest) {
		return nil, &LoadError{Class: ErrRevoked, File: manifestFile, Problem: "its digest " + p.Digest + " is in [trust].revoked",
			Remedy: "replace the plugin by a version that is not revoked"}
	}
	if o.Pin != "" && !isHexSum(strings.ToLower(o.Pin)) {
		return nil, &LoadError{Class: ErrSettings, File: o.source(p.Dir), Problem: fmt.Sprintf("the pin %q is not a SHA-256", clip(o.Pin, 80)),
			Remedy: "write the 64 hex digits of sha256sum " + manifestFile}
	}
	if o.Pin != "" && !strings.EqualFold(o.Pin, p.Digest) {
		return nil, &LoadError{Class: ErrTampered, File: manifestFile,
			Problem: fmt.Sprintf("its SHA-256 is %s, [[plugin]].sha256 pins %s", p.Digest, strings.ToLower(o.Pin)),
			Remedy:  "restore the pinned manifest, or review the new one and pin that"}
	}
	signature, err := readIn(root, SignatureFile, maxSignatureBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		switch {
		case o.Pin != "":
			p.TrustedBy = TrustedByPin
		case o.Trust.AllowUnsigned:
			p.TrustedBy = TrustedByOptIn
		default:
			return nil, &LoadError{Class: ErrUnsigned, File: manifestFile, Problem: "there is no signature " + SignatureFile,
				Remedy: fmt.Sprintf(`sign it with "awaken-host plugin sign", pin it with [[plugin]].sha256 = %q, or, for development only, set [trust].allow_unsigned = true`, p.Digest)}
		}
		return nil, nil
	case err != nil:
		return nil, &LoadError{Class: ErrFile, File: signatureFile, Problem: "the signature cannot be read", Err: err,
			Remedy: "restore it or sign the plugin again"}
	}
	return o.verify(p, text, signature)
}

func (o *LoadOptions) verify(p *Plugin, text, signature []byte) ([]TrustedKey, error) {
	signatureFile := filepath.Join(p.Dir, SignatureFile)
	var sig minisign.Signature
	if err := sig.UnmarshalText(signature); err != nil {
		return nil, &LoadError{Class: ErrTampered, File: signatureFile, Problem: "the signature is damaged", Err: err,
			Remedy: "restore it or sign the plugin again"}
	}
	id := keyID(sig.KeyID)
	if o.Trust.revoked(id) {
		return nil, &LoadError{Class: ErrRevoked, File: signatureFile, Problem: "key " + id + " is in [trust].revoked",
			Remedy: "get the plugin signed by a key that is not revoked"}
	}
	known := false
	var good []TrustedKey
	for _, k := range o.Trust.Keys {
		if !k.loaded || k.ID != id {
			continue
		}
		known = true
		if minisign.Verify(k.key, text, signature) {
			good = append(good, k)
		}
	}
	switch {
	case len(good) > 0:
		return good, nil
	case known:
		return nil, &LoadError{Class: ErrTampered, File: signatureFile,
			Problem: "key " + id + " did not sign this " + ManifestFile + ": the manifest was changed or the signature belongs to another one",
			Remedy:  "restore the signed manifest, or, if you changed it, sign the plugin again"}
	case o.Pin != "":
		return nil, nil
	}
	remedy := "add the author's public key to [trust].keys, or pin the manifest with [[plugin]].sha256 = \"" + p.Digest + "\""
	if o.Trust.AllowUnsigned {
		remedy += ", or remove the signature file: allow_unsigned is for plugins that have none"
	}
	return nil, &LoadError{Class: ErrUntrusted, File: signatureFile, Problem: "it is signed by key " + id + ", which is not in [trust].keys", Remedy: remedy}
}

// settle checks the scope of the keys now that the plugin's id is known.
func (o *LoadOptions) settle(p *Plugin, keys []TrustedKey, signatureFile string) error {
	for _, k := range keys {
		if k.Covers(p.Manifest.ID) {
			p.TrustedBy, p.Signer = TrustedBySignature, k.ID
			return nil
		}
	}
	switch {
	case o.Pin != "":
		p.TrustedBy = TrustedByPin
	case len(keys) > 0:
		return &LoadError{Class: ErrScope, File: signatureFile,
			Problem: fmt.Sprintf("key %s (%s) may sign %s, not %q", keys[0].ID, keys[0].File, strings.Join(keys[0].Plugins, ", "), p.Manifest.ID),
			Remedy:  "get the plugin signed by a key for it, or widen plugins of that key in [trust].keys"}
	}
	return nil
}

func (o *LoadOptions) source(dir string) string {
	if o.Source != "" {
		return o.Source
	}
	return dir
}

func (o *LoadOptions) limits(dir string) (Limits, error) {
	l := o.Limits
	if l.MemoryMiB < 0 || l.Timeout < 0 || l.OutputMiB < 0 {
		return l, &LoadError{Class: ErrSettings, File: o.source(dir), Problem: "a limit is negative", Remedy: "correct [limits]"}
	}
	if l.MemoryMiB == 0 {
		l.MemoryMiB = DefaultLimits.MemoryMiB
	}
	if l.Timeout == 0 {
		l.Timeout = DefaultLimits.Timeout
	}
	if l.OutputMiB == 0 {
		l.OutputMiB = DefaultLimits.OutputMiB
	}
	l.Timeout = max(l.Timeout, time.Millisecond)
	return l, nil
}

// apply checks the operator's settings against the manifest and sets what the
// plugin may do here.
func (o *LoadOptions) apply(p *Plugin, l Limits) error {
	var problems []string
	p.Effective, problems = effective(p.Manifest, o.Grant, l)
	var more []string
	p.Effective.Secrets, more = effectiveSecrets(p.Manifest.Capabilities.Secrets, o.Secrets)
	problems = append(problems, more...)
	tools := map[string]*ToolSpec{}
	for i := range p.Manifest.Tools {
		tools[p.Manifest.Tools[i].ID] = &p.Manifest.Tools[i]
	}
	unknown := func(table, id string) {
		problems = append(problems, fmt.Sprintf("%s: the plugin has no tool %q, it has %s%s",
			table, clip(id, 80), clip(strings.Join(sortedKeys(tools), ", "), 300), didYouMean(id, sortedKeys(tools))))
	}
	for _, id := range sortedKeys(o.Recovery) {
		r := o.Recovery[id]
		t := tools[id]
		switch {
		case t == nil:
			unknown("recovery", id)
			continue
		case r.MaxAttempts < 0:
			problems = append(problems, fmt.Sprintf("recovery.%s: max_attempts is %d, write at least 1", id, r.MaxAttempts))
		}
		if err := r.policy().AllowedBy(t.Recovery); err != nil {
			problems = append(problems, fmt.Sprintf("recovery.%s: %v", id, err))
		}
	}
	for _, id := range sortedKeys(o.Names) {
		if tools[id] == nil {
			unknown("names", id)
		} else if err := checkToolName(o.Names[id]); err != nil {
			problems = append(problems, fmt.Sprintf("names.%s: %v", id, err))
		}
	}
	if o.Clock != "" && !slices.Contains(Clocks(), string(o.Clock)) {
		problems = append(problems, fmt.Sprintf("clock: %q is not known, write one of %s", clip(string(o.Clock), 80), strings.Join(Clocks(), ", ")))
	}
	random, err := ParseRandom(o.Random)
	if err != nil {
		problems = append(problems, "random: "+err.Error())
	}
	if o.Warm < 0 {
		problems = append(problems, fmt.Sprintf("warm: is %d, write 0 for none or a number", o.Warm))
	}
	if len(problems) > 0 {
		return &LoadError{Class: ErrSettings, File: o.source(p.Dir), Problem: "settings of plugin " + p.Manifest.ID,
			Err: errors.New(strings.Join(problems, "; "))}
	}
	p.Grant = o.Grant.clone()
	p.Clock, p.Random, p.Warm = o.Clock, random, o.Warm
	p.Config, p.Recovery, p.Names = maps.Clone(o.Config), maps.Clone(o.Recovery), maps.Clone(o.Names)
	p.Secrets = maps.Clone(o.Secrets)
	return nil
}
