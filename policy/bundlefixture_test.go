package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// signer is a key pair as an operator has it.
type signer struct {
	id, private, public string // PEM
}

func newSigner(t testing.TB, id string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{id,
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))}
}

// key writes the public key to a file.
func (s *signer) key(t testing.TB, scope string) BundleKey {
	t.Helper()
	file := filepath.Join(t.TempDir(), s.id+".pem")
	if err := os.WriteFile(file, []byte(s.public), 0o600); err != nil {
		t.Fatal(err)
	}
	return BundleKey{ID: s.id, File: file, Algorithm: "ES256", Scope: scope}
}

// sign adds .signatures.json to files, made by OPA's own signer.
func (s *signer) sign(t testing.TB, files map[string]string, scope string) map[string]string {
	t.Helper()
	var infos []bundle.FileInfo
	hash, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var v any = []byte(files[name])
		if bundle.IsStructuredDoc(name) {
			if err := json.Unmarshal([]byte(files[name]), &v); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := hash.HashFile(v)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, bundle.NewFile(name, hexOf(sum), string(bundle.SHA256)))
	}
	config := bundle.NewSigningConfig(s.private, "ES256", "")
	if scope != "" {
		config.ClaimsPath = filepath.Join(t.TempDir(), "claims.json")
		if err := os.WriteFile(config.ClaimsPath, []byte(`{"scope": "`+scope+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token, err := bundle.GenerateSignedToken(infos, config, s.id)
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(files)
	raw, err := json.Marshal(bundle.SignaturesConfig{Signatures: []string{token}})
	if err != nil {
		t.Fatal(err)
	}
	out[".signatures.json"] = string(raw)
	return out
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// tarred is one record of an archive.
type tarred struct {
	name, text string
	kind       byte // 0: a file
}

// pack makes an archive of entries in their order.
func pack(t testing.TB, entries ...tarred) []byte {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	tw := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.kind != 0 {
			h.Typeflag = e.kind
			h.Linkname = "/etc/passwd"
			h.Size = 0
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := tw.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// archive packs files by name.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var entries []tarred
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, tarred{name: name, text: files[name]})
	}
	return pack(t, entries...)
}

// manifest is a .manifest with these roots.
func manifest(revision string, roots ...string) string {
	raw, _ := json.Marshal(map[string]any{"revision": revision, "roots": roots})
	return string(raw)
}

// policyFiles is a whole policy as a bundle: what it allows says its revision.
func policyFiles(revision string) map[string]string {
	return map[string]string{
		".manifest":  manifest(revision, "awaken/policy", "acme"),
		"allow.rego": "package awaken.policy\n\nallow contains sprintf(\"%s %s\", [\"" + revision + "\", data.acme.revision])\n",
		"data.json":  `{"acme": {"revision": "` + revision + `"}}`,
	}
}

func unsigned(path string) BundleOptions {
	return BundleOptions{Name: "acme", Path: path, AllowUnsigned: true}
}

func readUnsigned(t testing.TB, raw []byte) (*content, error) {
	t.Helper()
	o := unsigned("acme.tar.gz")
	return readBundle(context.Background(), "bundle:acme", raw, &o, nil, nil)
}
