package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"aead.dev/minisign"

	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// Whatever the bytes, parsing ends with a manifest that keeps its promises or with
// an ErrManifest that names the file.
func FuzzParseManifest(f *testing.F) {
	for _, s := range []string{sampleManifest, minimal, asking, "", "manifest = 1\n[[tool]]\n", "a.b.c = [{x={y=[1,2]}}]\n'q' = \"\\u0041\"\n",
		"x = \"\"\"\"quoted\"\"\"\"\ny = '''\n[[tool]]\n'''\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest("plugin.toml", data)
		if err != nil {
			if !errors.Is(err, ErrManifest) || m != nil || !strings.HasPrefix(err.Error(), "plugin.toml:") || len(err.Error()) > 40_000 {
				t.Fatalf("%v", err)
			}
			return
		}
		if checkPluginID(m.ID) != nil || checkModulePath(m.Module.Path) != nil || m.Module.SHA256 != "" && !isHexSum(m.Module.SHA256) || len(m.Tools) == 0 {
			t.Fatalf("%+v", m)
		}
		c := m.Capabilities
		if c.MemoryMiB < 0 || c.MemoryMiB > maxMemoryMiB || c.Timeout < 0 {
			t.Fatalf("%+v", c)
		}
		for p, mode := range c.Paths {
			if checkGuestPath(p) != nil || mode != "ro" && mode != "rw" {
				t.Fatalf("%q = %q", p, mode)
			}
		}
		ids := map[string]bool{}
		for _, tool := range m.Tools {
			if ids[tool.ID] || checkToolName(tool.ID) != nil || tool.Recovery.Validate() != nil {
				t.Fatalf("%+v", tool)
			}
			ids[tool.ID] = true
			if (m.Module.ABI == ABIExtism) != (tool.Export != "") || tool.InputSchema != nil && !json.Valid(tool.InputSchema) {
				t.Fatalf("%+v", tool)
			}
			if _, err := json.Marshal(tool.Annotations); err != nil {
				t.Fatal(err)
			}
		}
		// Every tool of an accepted manifest can be served, names aside.
		names := map[string]string{}
		for i, tool := range m.Tools {
			names[tool.ID] = "t" + string(rune('0'+i%10)) + hexSum([]byte(tool.ID))[:40]
		}
		if _, err := NewSnapshot([]*Plugin{{Manifest: m, Names: names}}); err != nil {
			t.Fatal(err)
		}
		// Filling in the digest changes that and nothing else.
		sum := hexSum(nil)
		if out, err := fillDigest("plugin.toml", data, m, sum); err == nil && !bytes.Contains(out, []byte(sum)) {
			t.Fatal("the digest is not there")
		}
	})
}

// What is accepted as arguments is an object in strict JSON by an oracle written
// another way; what the oracle accepts and is within bounds is accepted.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":[true,null,{"c":"\u00e9\ud83d\ude00"}]}`, `{"a":1,"\u0061":2}`, `{"a":"\ud800"}`, `[]`, `{"a":1e999}`,
		"{\"\xff\":1}", `{"a":{"b":1,"b":1}}`, `{} {}`, `{"a":"\\ud800\\"}`, `{"\ud800":1,"\ud801":2}`} {
		f.Add([]byte(s))
	}
	tool := toolOf(f, "")
	f.Fuzz(func(t *testing.T, data []byte) {
		err := tool.CheckArguments(data)
		if err != nil && len(err.Error()) > 2500 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		object := json.Valid(data) && utf8.Valid(data) && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
		oracle := object && !repeatsKey(data)
		if err == nil && !oracle {
			t.Fatalf("accepted %q", data)
		}
		bounded := len(data) < strictjson.MaxDepth && !bytes.ContainsAny(data, "eE") && !bytes.Contains(data, []byte(`\u`))
		if err != nil && oracle && bounded {
			t.Fatalf("refused %q: %v", data, err)
		}
	})
}

// repeatsKey walks valid JSON by raw values: each object is decoded member by
// member with keys as the standard library compares them.
func repeatsKey(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		object, key bool
		seen        map[string]bool
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			return true
		}
		top := len(stack) - 1
		if name, ok := tok.(string); ok && top >= 0 && stack[top].object && stack[top].key {
			if stack[top].seen[name] {
				return true
			}
			stack[top].seen[name], stack[top].key = true, false
			continue
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{true, true, map[string]bool{}})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if n := len(stack); n > 0 {
			stack[n-1].key = stack[n-1].object
		}
	}
}

// No signature file but one that verifies lets a plugin in, and none panics.
func FuzzSignatureFile(f *testing.F) {
	pub, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	text := []byte(minimal)
	good, err := signText(secret, text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("untrusted comment: \n\ntrusted comment: \n\n"))
	f.Add([]byte{})
	o := LoadOptions{Trust: Trust{Keys: []TrustedKey{{ID: keyID(pub.ID()), key: pub, loaded: true}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := o.verify(&Plugin{}, text, data)
		if verified := minisign.Verify(pub, text, data); verified != (err == nil) || verified != (len(keys) == 1) {
			t.Fatalf("verified %v, %d keys, %v", verified, len(keys), err)
		}
	})
}

// No key file panics, and what loads has an id and a key that it was written with.
func FuzzKeyFile(f *testing.F) {
	pub, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	pubText, _ := pub.MarshalText()
	secretText, _ := secret.MarshalText()
	f.Add(pubText)
	f.Add(secretText)
	f.Add([]byte(pub.String() + "\r\n"))
	f.Add([]byte("untrusted comment: \n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(dir, "k.pub")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := LoadKey(file, nil)
		if err != nil {
			if !errors.Is(err, ErrKey) || key.loaded {
				t.Fatal(err)
			}
			return
		}
		var again minisign.PublicKey
		if err := again.UnmarshalText([]byte(key.key.String())); err != nil || !again.Equal(key.key) || len(key.ID) != 16 {
			t.Fatalf("%+v, %v", key, err)
		}
	})
}
