package plugins

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"aead.dev/minisign"
)

// Report is what a signed or verified plugin is.
type Report struct {
	ID           string    `json:"id"`
	Version      string    `json:"version"`
	Digest       string    `json:"digest"` // hex SHA-256 of plugin.toml, what a pin names
	TrustedBy    TrustedBy `json:"trusted_by"`
	Signer       string    `json:"signer,omitempty"` // key id
	ModuleDigest string    `json:"module_digest"`
	Tools        []string  `json:"tools"` // ids within the plugin
}

// SignOptions are the choices of Sign.
type SignOptions struct {
	// UpdateDigest lets Sign replace a module.sha256 that names another module;
	// without it only an empty one is filled.
	UpdateDigest bool
	// Check refuses a module that could not be loaded, before anything is written; its
	// error is returned as it is. It must not keep or change the module. Nil: any
	// module is signed.
	Check func(m *Manifest, module []byte) error
}

// SignReport is what Sign did.
type SignReport struct {
	Report
	Filled        bool   `json:"filled"` // plugin.toml was changed
	SignatureFile string `json:"signature_file"`
}

// Sign validates the plugin in dir, writes the module's digest into plugin.toml
// where that is empty, and writes plugin.toml.minisig with the secret key in
// keyFile. The author's text is kept byte for byte but for the digest. Both files
// are replaced whole; a crash in between leaves a plugin that is refused until it
// is signed again.
func Sign(dir, keyFile, password string, o SignOptions) (*SignReport, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: dir, Problem: "the plugin's folder cannot be opened", Err: err, Remedy: "check the path"}
	}
	defer root.Close()
	manifestFile := filepath.Join(dir, ManifestFile)
	text, err := readIn(root, ManifestFile, MaxManifestBytes)
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: manifestFile, Problem: "the manifest cannot be read", Err: err, Remedy: "write one first"}
	}
	m, err := ParseManifest(manifestFile, text)
	if err != nil {
		return nil, &LoadError{Class: ErrManifest, File: manifestFile, Err: err}
	}
	module, err := readModule(root, dir, m)
	if err != nil {
		return nil, err
	}
	sum := hexSum(module)
	if m.Module.SHA256 != "" && m.Module.SHA256 != sum && !o.UpdateDigest {
		return nil, &LoadError{Class: ErrTampered, File: manifestFile,
			Problem: fmt.Sprintf("module.sha256 is %s but %s has %s", m.Module.SHA256, m.Module.Path, sum),
			Remedy:  "if you built the module anew, update the digest (--update-digest) or empty it"}
	}
	if o.Check != nil {
		if err := o.Check(m, module); err != nil {
			return nil, err
		}
	}
	key, err := readSecretKey(keyFile, password)
	if err != nil {
		return nil, err
	}
	report := &SignReport{SignatureFile: filepath.Join(dir, SignatureFile)}
	if m.Module.SHA256 != sum {
		if text, err = fillDigest(manifestFile, text, m, sum); err != nil {
			return nil, err
		}
		if err := replaceManifest(root, text); err != nil {
			return nil, &LoadError{Class: ErrFile, File: manifestFile, Problem: "the digest cannot be written", Err: err, Remedy: "check that the folder is writable"}
		}
		report.Filled = true
	}
	signature, err := signText(key, text)
	if err == nil {
		err = replaceIn(root, SignatureFile, signature, 0o644)
	}
	if err != nil {
		return nil, &LoadError{Class: ErrFile, File: report.SignatureFile, Problem: "the signature cannot be written", Err: err, Remedy: "check that the folder is writable"}
	}
	report.Report = reportOf(&Plugin{Manifest: m, Digest: hexSum(text), TrustedBy: TrustedBySignature, Signer: keyID(key.ID())})
	report.ModuleDigest = sum
	return report, nil
}

// signText makes a prehashed signature, as the minisign tool does.
func signText(key minisign.PrivateKey, text []byte) ([]byte, error) {
	r := minisign.NewReader(bytes.NewReader(text))
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	trusted := fmt.Sprintf("timestamp:%d\tfile:%s\thashed", time.Now().Unix(), ManifestFile)
	return r.SignWithComments(key, trusted, "signature from awaken-host, key "+keyID(key.ID())), nil
}

func replaceManifest(root *os.Root, text []byte) error {
	st, err := root.Lstat(ManifestFile)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is a link, replace it by the file", ManifestFile)
	}
	return replaceIn(root, ManifestFile, text, st.Mode().Perm())
}

// fillDigest returns text with module.sha256 set to sum and nothing else changed.
func fillDigest(file string, text []byte, m *Manifest, sum string) ([]byte, error) {
	lay, stopped := scanLayout(text)
	path, known := lay.spans["module.path"]
	if stopped != nil || !known {
		return nil, &LoadError{Class: ErrManifest, File: file, Problem: "the place of module.path is not found", Remedy: "write module.sha256 = \"" + sum + "\" by hand"}
	}
	quoted := `"` + sum + `"`
	out := bytes.Clone(text)
	if old, ok := lay.spans["module.sha256"]; ok {
		out = splice(out, old.start, old.end, quoted)
	} else {
		// A line like that of path, below it; in an inline table, right after it.
		start := lay.lines[lay.line(path.start)-1]
		lead := string(text[start:path.start])
		end := len(text)
		if i := bytes.IndexByte(text[path.end:], '\n'); i >= 0 {
			end = path.end + i
		}
		i := strings.LastIndex(lead, "path")
		if strings.Contains(lead, "{") || i < 0 {
			out = splice(out, path.end, path.end, ", sha256 = "+quoted)
		} else {
			eol := "\n"
			if end > 0 && text[end-1] == '\r' {
				end, eol = end-1, "\r\n"
			}
			out = splice(out, end, end, eol+lead[:i]+"sha256"+lead[i+len("path"):]+quoted)
		}
	}
	want := *m
	want.Module.SHA256 = sum
	if got, err := ParseManifest(file, out); err != nil || !reflect.DeepEqual(got, &want) {
		return nil, &LoadError{Class: ErrManifest, File: file, Problem: "module.sha256 cannot be filled in here", Err: err,
			Remedy: "write sha256 = \"" + sum + "\" by hand"}
	}
	return out, nil
}

func splice(text []byte, start, end int, with string) []byte {
	return append(append(append([]byte{}, text[:start]...), with...), text[end:]...)
}

// Verify loads the plugin in dir as the host would with this trust and pin, and
// says what it found.
func Verify(dir string, trust Trust, pin string) (*Report, error) {
	p, err := Load(dir, LoadOptions{Trust: trust, Pin: pin})
	if err != nil {
		return nil, err
	}
	r := reportOf(p)
	return &r, nil
}

func reportOf(p *Plugin) Report {
	r := Report{ID: p.Manifest.ID, Version: p.Manifest.Version, Digest: p.Digest, TrustedBy: p.TrustedBy,
		Signer: p.Signer, ModuleDigest: p.Manifest.Module.SHA256, Tools: []string{}}
	for _, t := range p.Manifest.Tools {
		r.Tools = append(r.Tools, t.ID)
	}
	return r
}
