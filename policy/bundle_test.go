package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

func TestReadBundle(t *testing.T) {
	files := policyFiles("v7")
	files["deep/er/data.yaml"] = "limit: 3"
	files["policy_test.rego"] = "package acme.policy_test\n\ntest_x if true\n"
	files["limits.json"] = "{}"
	files[".manifest"] = manifest("v7", "awaken/policy", "acme", "deep")
	c, err := readUnsigned(t, archive(t, files))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.policy {
		got = append(got, s.file+" "+strings.Join(s.dirs, "."))
	}
	slices.Sort(got)
	want := []string{"bundle:acme/allow.rego ", "bundle:acme/data.json ", "bundle:acme/deep/er/data.yaml deep.er"}
	if !slices.Equal(got, want) {
		t.Errorf("got policy %q, want %q", got, want)
	}
	if c.revision != "v7" || !slices.Equal(c.roots, []string{"acme", "awaken/policy", "deep"}) || c.signer != "" || len(c.digest) != 64 {
		t.Errorf("got %s, %q, signed by %q, %s", c.revision, c.roots, c.signer, c.digest)
	}
	if len(c.tests) != 1 || c.tests[0].file != "bundle:acme/policy_test.rego" {
		t.Errorf("got tests %+v", c.tests)
	}
	if len(c.unread) != 1 || !strings.HasPrefix(c.unread[0].String(), "bundle:acme/limits.json: is not read: in a bundle ") {
		t.Errorf("got unread %v", c.unread)
	}
}

// What OPA's own writer makes is read, with its leading slashes.
func TestBundleOfOPA(t *testing.T) {
	text := "package awaken.policy\n\nallow contains \"x\"\n"
	b := bundle.Bundle{
		Manifest: bundle.Manifest{Revision: "r1", Roots: &[]string{"awaken/policy", "limits"}},
		Modules:  []bundle.ModuleFile{{URL: "/p/policy.rego", Path: "/p/policy.rego", Raw: []byte(text), Parsed: ast.MustParseModule(text)}},
		Data:     map[string]any{"limits": map[string]any{"n": 3}},
	}
	s := newSigner(t, "k1")
	if err := b.GenerateSignature(bundle.NewSigningConfig(s.private, "ES256", ""), s.id, false); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := bundle.NewWriter(&buf).Write(b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, "")
	o.Paths, o.Bundles = nil, []BundleOptions{{Name: "acme", Path: file, Keys: []BundleKey{s.key(t, "")}}}
	g := open(t, o)
	if d := decide(t, g, query("read", `{}`)); d.Outcome != "allow" {
		t.Errorf("got %+v", d)
	}
	src := g.Status().Sources
	if len(src) != 1 || src[0].Revision != "r1" || src[0].Signer != "k1" || !slices.Equal(src[0].Roots, []string{"awaken/policy", "limits"}) {
		t.Errorf("got %+v", src)
	}
}

func TestBundlesThatAreRefused(t *testing.T) {
	with := func(more map[string]string) []byte {
		files := policyFiles("v1")
		maps.Copy(files, more)
		return archive(t, files)
	}
	good := archive(t, policyFiles("v1"))
	gz := func(raw []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(raw)
		_ = w.Close()
		return b.Bytes()
	}
	plain := func() []byte {
		r, _ := gzip.NewReader(bytes.NewReader(good))
		var b bytes.Buffer
		_, _ = b.ReadFrom(r)
		return b.Bytes()
	}()
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"empty":              {nil, "bundle:acme: is no bundle that can be loaded: it is not compressed with gzip: EOF"},
		"no gzip":            {[]byte("hello, world, how are you"), "it is not compressed with gzip"},
		"no tar":             {gz([]byte(strings.Repeat("hello", 500))), "it is damaged or was cut short"},
		"cut short":          {good[:len(good)-20], "it is damaged or was cut short: unexpected EOF"},
		"wrong checksum":     {append(slices.Clone(good[:len(good)-8]), 1, 2, 3, 4, 5, 6, 7, 8), "it is damaged or was cut short: gzip: invalid checksum"},
		"two in one":         {append(slices.Clone(good), good...), "there is more after the end of the archive"},
		"junk after the end": {gz(append(slices.Clone(plain), "junk"...)), "there is more after the end of the archive"},
		"upwards":            {pack(t, tarred{name: "../../etc/evil.rego", text: "package x"}), `the name "../../etc/evil.rego" does not stay inside the bundle`},
		"upwards within":     {pack(t, tarred{name: "a/../b.rego", text: "package x"}), "does not stay inside"},
		"two slashes":        {pack(t, tarred{name: "//a.rego", text: "package x"}), "does not stay inside"},
		"backslash":          {pack(t, tarred{name: `a\..\b.rego`, text: "package x"}), "does not stay inside"},
		"control character":  {pack(t, tarred{name: "a\nb.rego", text: "package x"}), "characters that names of files do not need"},
		"long name":          {pack(t, tarred{name: strings.Repeat("a", 600) + ".rego", text: "package x"}), "longer than 512 bytes"},
		"deep":               {pack(t, tarred{name: strings.Repeat("a/", 40) + "x.rego", text: "package x"}), "more than 32 folders deep"},
		"link":               {pack(t, tarred{name: "a.rego", kind: tar.TypeSymlink}), `"a.rego" is neither a file nor a folder`},
		"hard link":          {pack(t, tarred{name: "a.rego", kind: tar.TypeLink}), "is neither a file nor a folder"},
		"device":             {pack(t, tarred{name: "a.rego", kind: tar.TypeChar}), "is neither a file nor a folder"},
		"twice":              {pack(t, tarred{name: "a.rego", text: "package a"}, tarred{name: "a.rego", text: "package b"}), `"a.rego" is there twice`},
		"twice, by slash":    {pack(t, tarred{name: "/a.rego", text: "package a"}, tarred{name: "./a.rego", text: "package b"}), `"a.rego" is there twice`},
		"file and folder":    {pack(t, tarred{name: "a", text: "x"}, tarred{name: "a/", kind: tar.TypeDir}), `"a" is there twice`},

		"delta":               {with(map[string]string{"patch.json": `{"data": []}`}), "bundle:acme/patch.json: makes this a delta bundle"},
		"wasm":                {with(map[string]string{"policy.wasm": "\x00asm"}), "policy.wasm: is policy compiled to WebAssembly"},
		"plan":                {with(map[string]string{"plan.json": "{}"}), "plan.json: is policy compiled to a plan"},
		"binary manifest":     {with(map[string]string{".manifest.pb": ""}), "write .manifest as JSON"},
		"second manifest":     {with(map[string]string{"sub/.manifest": "{}"}), "bundle:acme/sub/.manifest: must be at the top of the bundle"},
		"hidden signatures":   {with(map[string]string{"sub/.signatures.json": "{}"}), "must be at the top of the bundle"},
		"manifest is no JSON": {with(map[string]string{".manifest": "revision: x"}), "bundle:acme: is not loaded: "},
		"manifest's key":      {with(map[string]string{".manifest": `{"revision": "x", "root": ["a"]}`}), `unknown field "root"`},
		"manifest's key twice": {with(map[string]string{".manifest": `{"revision": "x", "roots": ["a"], "roots": ["awaken/policy", "acme"]}`}),
			"bundle:acme/.manifest: sets the key roots twice"},
		"no roots":           {with(map[string]string{".manifest": `{"revision": "x", "roots": []}`}), "do not permit"},
		"old rego":           {with(map[string]string{".manifest": `{"rego_version": 0}`, "allow.rego": "package awaken.policy\n\nallow[\"x\"] { true }\n"}), "asks for another version of Rego than 1"},
		"old rego in one":    {with(map[string]string{".manifest": `{"rego_version": 1, "file_rego_versions": {"/allow.rego": 0}}`}), "asks for another version of Rego than 1"},
		"wasm in manifest":   {with(map[string]string{".manifest": `{"wasm": [{"entrypoint": "a", "module": "/policy.wasm"}]}`}), "wasm module"},
		"revision":           {with(map[string]string{".manifest": `{"revision": "a\nb"}`}), "control characters"},
		"rules out of roots": {with(map[string]string{"other.rego": "package other\n\nx := 1\n"}), "do not permit 'package other' in module 'other.rego'"},
		"data out of roots":  {with(map[string]string{"data.json": `{"acme": {"revision": "v1"}, "more": 1}`}), "do not permit data at path '/more'"},
		"roots overlap":      {with(map[string]string{".manifest": manifest("v1", "awaken", "awaken/policy", "acme")}), "overlapped roots"},
		"nothing in it":      {archive(t, map[string]string{".manifest": `{"revision": "x"}`}), "has no .rego file and no data"},
		"syntax":             {with(map[string]string{"allow.rego": "package awaken.policy\n\nallow contains\n"}), "bundle:acme/allow.rego:4: "},
		"a test's syntax":    {with(map[string]string{"a_test.rego": "package acme\n\ntest_x if\n"}), "bundle:acme/a_test.rego:4: "},
		"no UTF-8":           {with(map[string]string{"data.json": "{\"acme\": {\"revision\": \"\xff\"}}"}), "bundle:acme/data.json: is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readUnsigned(t, c.raw)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %+v, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// An archive of a few kilobytes that unpacks to more than anybody wants.
func TestGzipBomb(t *testing.T) {
	bomb := func(size int64, files int) []byte {
		var buf bytes.Buffer
		gz, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression)
		tw := tar.NewWriter(gz)
		block := make([]byte, 1<<20)
		for i := range files {
			_ = tw.WriteHeader(&tar.Header{Name: strings.Repeat("x", i+1) + ".rego", Mode: 0o600, Size: size, Typeflag: tar.TypeReg})
			for left := size; left > 0; left -= int64(len(block)) {
				_, _ = tw.Write(block[:min(left, int64(len(block)))])
			}
		}
		_ = tw.Close()
		_ = gz.Close()
		return buf.Bytes()
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"one file":   {bomb(40<<20, 1), `"x.rego" is larger than 32 MiB`},
		"many files": {bomb(24<<20, 3), "it unpacks to more than 64 MiB"},
		"after the end": {func() []byte {
			var buf bytes.Buffer
			gz := gzip.NewWriter(&buf)
			_, _ = gz.Write(make([]byte, 80<<20)) // the end of an archive, again and again
			_ = gz.Close()
			return buf.Bytes()
		}(), "it unpacks to more than 64 MiB"},
	} {
		if len(c.raw) > 1<<20 {
			t.Fatalf("%s: %d bytes are no bomb", name, len(c.raw))
		}
		if _, err := readUnsigned(t, c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSignedBundles(t *testing.T) {
	k1, k2, other := newSigner(t, "k1"), newSigner(t, "k2"), newSigner(t, "k1")
	signed := k1.sign(t, policyFiles("v1"), "")
	changed := func(name, text string) map[string]string {
		files := maps.Clone(signed)
		files[name] = text
		return files
	}
	without := func(name string) map[string]string {
		files := maps.Clone(signed)
		delete(files, name)
		return files
	}
	keys := func(ks ...BundleKey) []BundleKey { return ks }
	for name, c := range map[string]struct {
		files    map[string]string
		keys     []BundleKey
		unsigned bool
		signer   string // "" with want: refused; "-": let in unsigned
		want     string
	}{
		"good":                       {signed, keys(k1.key(t, "")), false, "k1", ""},
		"second key":                 {k2.sign(t, policyFiles("v1"), ""), keys(k1.key(t, ""), k2.key(t, "")), false, "k2", ""},
		"rotated away":               {signed, keys(k2.key(t, "")), false, "", "is signed by none of the keys"},
		"another key of that name":   {other.sign(t, policyFiles("v1"), ""), keys(k1.key(t, "")), false, "", "is signed by none of the keys"},
		"scope":                      {k1.sign(t, policyFiles("v1"), "write"), keys(k1.key(t, "write")), false, "k1", ""},
		"wrong scope":                {k1.sign(t, policyFiles("v1"), "read"), keys(k1.key(t, "write")), false, "", "k1: scope mismatch"},
		"no scope":                   {signed, keys(k1.key(t, "write")), false, "", "k1: scope mismatch"},
		"scope that nobody asks for": {k1.sign(t, policyFiles("v1"), "read"), keys(k1.key(t, "")), false, "", "k1: scope mismatch"},
		"unsigned":                   {policyFiles("v1"), keys(k1.key(t, "")), false, "", "bundle:acme: is not signed: it has no .signatures.json"},
		"unsigned and let in":        {policyFiles("v1"), keys(k1.key(t, "")), true, "-", ""},
		"let in, signed wrongly":     {other.sign(t, policyFiles("v1"), ""), keys(k1.key(t, "")), true, "", "is signed by none of the keys"},
		"let in, no key":             {signed, nil, true, "", "is signed, and there is no key to verify it with"},
		"changed rule":               {changed("allow.rego", "package awaken.policy\n\nallow contains \"all\"\n"), keys(k1.key(t, "")), false, "", "digest mismatch"},
		"changed data":               {changed("data.json", `{"acme": {"revision": "v2"}}`), keys(k1.key(t, "")), false, "", "digest mismatch"},
		"changed manifest":           {changed(".manifest", manifest("v2", "awaken/policy", "acme")), keys(k1.key(t, "")), false, "", "digest mismatch"},
		"added file":                 {changed("more.rego", "package awaken.policy\n\nallow contains \"all\"\n"), keys(k1.key(t, "")), false, "", "not included in bundle signature"},
		"removed file":               {without("data.json"), keys(k1.key(t, "")), false, "", "specified in bundle signatures but not found"},
		"no signatures":              {changed(".signatures.json", `{"signatures": []}`), keys(k1.key(t, "")), false, "", "missing JWT"},
		"no JSON":                    {changed(".signatures.json", `x`), keys(k1.key(t, "")), false, "", "cannot be read"},
		"a plugin's":                 {changed(".signatures.json", `{"signatures": ["x"], "plugin": "mine"}`), keys(k1.key(t, "")), false, "", "signed by the plugin"},
		"alg none":                   {changed(".signatures.json", `{"signatures": ["eyJhbGciOiJub25lIn0.eyJmaWxlcyI6W119."]}`), keys(k1.key(t, "")), false, "", "is signed by none of the keys"},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, problems := loadKeys("bundle:acme", c.keys)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			o := BundleOptions{Name: "acme", Keys: c.keys, AllowUnsigned: c.unsigned}
			got, err := readBundle(context.Background(), "bundle:acme", archive(t, c.files), &o, loaded, nil)
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %+v, %v\nwant %s", got, err, c.want)
				}
			case err != nil:
				t.Error(err)
			case got.signer != strings.Trim(c.signer, "-"):
				t.Errorf("signed by %q", got.signer)
			}
		})
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	k := newSigner(t, "k1")
	rsaKey := "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBALKZD0nEffqM1ACuak0bijtqE2QrI/KL\nADv7l3kK3ppMyCuLKoF0fd7Ai2KW5ToIwzFofvJcS/STa6HA5gQenRUCAwEAAQ==\n-----END PUBLIC KEY-----\n"
	for name, c := range map[string]struct{ text, algorithm, want string }{
		"private key":     {k.private, "ES256", "it is a private key: whoever reads this file could sign"},
		"no PEM":          {"hello", "ES256", "it is not in PEM form"},
		"two keys":        {k.public + k.public, "ES256", "it holds more than one key"},
		"unknown kind":    {"-----BEGIN NOTE-----\naGVsbG8=\n-----END NOTE-----\n", "ES256", `it holds "NOTE", not a public key`},
		"damaged":         {"-----BEGIN PUBLIC KEY-----\naGVsbG8=\n-----END PUBLIC KEY-----\n", "ES256", "asn1"},
		"for another":     {k.public, "RS256", "it is no key for RS256"},
		"RSA for another": {rsaKey, "ES256", "it is no key for ES256"},
		"shared secret":   {k.public, "HS256", `the algorithm "HS256" is not known`},
		"unknown":         {k.public, "none", `the algorithm "none" is not known`},
		"missing":         {"", "ES256", "no such file"},
		"good":            {k.public, "ES256", ""},
		"good RSA":        {rsaKey, "PS256", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key.pem")
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, problems := loadKeys("bundle:acme", []BundleKey{{ID: "k1", File: file, Algorithm: c.algorithm}})
			if c.want == "" && len(problems) == 0 {
				return
			}
			if len(problems) != 1 || c.want == "" || !strings.Contains(problems[0].String(), c.want) || !strings.HasPrefix(problems[0].String(), file+": key k1 of bundle:acme cannot be used: ") {
				t.Errorf("got %v, want %q", problems, c.want)
			}
		})
	}
}

// Several bundles, and files beside them.
func TestBundlesTogether(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, files map[string]string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, archive(t, files), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rules := map[string]string{".manifest": manifest("r1", "awaken/policy"), "p.rego": "package awaken.policy\n\nallow contains \"n\" if input.call.arguments.n < data.acme.limit\n"}
	data := map[string]string{".manifest": manifest("d1", "acme"), "data.json": `{"acme": {"limit": 5}}`}
	o := options(t, "block contains \"local\" if input.call.arguments.n == 3")
	o.Paths = append(o.Paths, put("rules.tar.gz", rules))
	o.Bundles = []BundleOptions{{Name: "data", Path: put("data.tar.gz", data), AllowUnsigned: true}}
	g := open(t, o)
	for args, want := range map[string]string{`{"n": 1}`: "allow", `{"n": 3}`: "block", `{"n": 7}`: "block"} {
		if d := decide(t, g, query("read", args)); string(d.Outcome) != want {
			t.Errorf("%s: got %s", args, d.Outcome)
		}
	}
	first := g.Revision()
	r, err := Check(context.Background(), o)
	if err != nil || r.Revision != first || !slices.Contains(r.Data, "bundle:data/data.json") {
		t.Errorf("got %+v, %v", r, err)
	}

	// The revision of a bundle is part of that of the policy.
	data[".manifest"] = manifest("d2", "acme")
	put("data.tar.gz", data)
	if err := g.Reload(context.Background()); err != nil || g.Revision() == first {
		t.Errorf("revision %s after another one of a bundle, %v", g.Revision(), err)
	}

	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"overlap":   {map[string]string{".manifest": manifest("d1", "awaken"), "p.rego": "package awaken.other\n\nx := 1\n"}, `claims the root "awaken", and `},
		"all":       {map[string]string{"data.json": `{"x": 1}`}, `claims the root "", and `},
		"reserved":  {map[string]string{".manifest": manifest("d1", "awaken/gate"), "p.rego": "package awaken.gate\n\nx := 1\n"}, "bundle:data/p.rego:1:1: package awaken.gate is the host's own"},
		"a rule":    {map[string]string{".manifest": manifest("d1", "acme"), "data.json": `{"acme": {}}`, "p.rego": "package acme\n\nlimit := 1 if\n"}, "bundle:data/p.rego:4: "},
		"key twice": {map[string]string{".manifest": manifest("d1", "acme"), "data.json": `{"acme": {"limit": 5, "limit": 6}}`}, "bundle:data/data.json:1: sets the key acme.limit twice"},
	} {
		put("data.tar.gz", c.files)
		before := g.Revision()
		err := g.Reload(context.Background())
		if err == nil || !strings.Contains(err.Error(), c.want) || g.Revision() != before {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Check(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Check says %v", name, err)
		}
		if st := g.Status(); st.Healthy() || !strings.Contains(st.Problem, c.want) || st.Since == nil {
			t.Errorf("%s: status %+v", name, st)
		}
	}
}

func TestBundleOptionsThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		o    BundleOptions
		want string
	}{
		"name":           {BundleOptions{Name: "A b", Path: "x.tar.gz", AllowUnsigned: true}, `"A b" cannot be the name of a bundle`},
		"nowhere":        {BundleOptions{Name: "a"}, "bundle:a: needs either a path or a url"},
		"negative":       {BundleOptions{Name: "a", Path: "x.tar.gz", Poll: -1}, "must not be negative"},
		"no url":         {BundleOptions{Name: "a", URL: "ftp://x/y"}, "its url is not of the form https://host/path"},
		"user":           {BundleOptions{Name: "a", URL: "https://u:p@x/y"}, "its url has a user in it"},
		"unsigned":       {BundleOptions{Name: "a", URL: "http://example.com/y", AllowUnsigned: true}, "comes over http"},
		"token":          {BundleOptions{Name: "a", URL: "http://example.com/y", Token: func(context.Context) (string, error) { return "", nil }}, "would be sent over http"},
		"no file":        {BundleOptions{Name: "a", Path: "none.tar.gz", AllowUnsigned: true}, "bundle:a: cannot be had: there is no such file"},
		"no ca":          {BundleOptions{Name: "a", URL: "https://x/y", CAFile: "none.pem"}, "none.pem: ca_file of bundle a cannot be read"},
		"ca without any": {BundleOptions{Name: "a", URL: "https://x/y", CAFile: "bundle_test.go"}, "holds no certificate in PEM form"},
	} {
		o := options(t, allowAll)
		o.Bundles = []BundleOptions{c.o}
		if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Whatever bytes come, the reader ends with a bundle in which every file is within the
// roots and under its own name, or with an error.
func FuzzReadBundle(f *testing.F) {
	f.Add(archive(f, policyFiles("v1")))
	f.Add(archive(f, map[string]string{"data.yaml": "a: 1", ".manifest": `{"roots": ["a"]}`}))
	f.Add(pack(f, tarred{name: "../a.rego", text: "package a"}))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := readUnsigned(t, raw)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range append(slices.Clone(c.policy), c.tests...) {
			if seen[s.file] || strings.Contains(s.file, "..") && strings.Contains(s.file, "/../") {
				t.Errorf("%q is there twice or leads upwards", s.file)
			}
			seen[s.file] = true
			if m, err := ast.ParseModule("", string(s.raw)); s.rego() && err == nil {
				p := strings.ReplaceAll(strings.TrimPrefix(m.Package.Path.String(), "data."), ".", "/")
				if !bundle.RootPathsContain(c.roots, p) && !strings.Contains(p, "[") {
					t.Errorf("package %s is out of the roots %q", p, c.roots)
				}
			}
		}
	})
}
