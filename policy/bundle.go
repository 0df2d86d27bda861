package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

// Defaults of BundleOptions.
const (
	DefaultBundlePoll    = time.Minute
	DefaultBundleTimeout = 10 * time.Second
	DefaultBundleBytes   = 16 << 20
)

// BundleOptions is one OPA bundle: where it comes from and who must have signed it.
// Exactly one of Path and URL is set.
type BundleOptions struct {
	Name string // [a-z0-9][a-z0-9._-]*, at most 64; unique
	Path string // a .tar.gz on disk
	URL  string // http or https, without user information

	// Keys verify .signatures.json; the signature of any one of them counts. Without
	// keys a bundle cannot be loaded unless AllowUnsigned is set.
	Keys []BundleKey
	// AllowUnsigned lets a bundle without a signature in. One that has a signature is
	// verified all the same, and refused when no key is its.
	AllowUnsigned bool

	Poll     time.Duration // between two downloads; 0: DefaultBundlePoll
	Timeout  time.Duration // for one download; 0: DefaultBundleTimeout
	MaxBytes int64         // of the archive; 0: DefaultBundleBytes
	CAFile   string        // PEM certificates to trust besides the system's; empty: none
	Proxy    string        // URL of a proxy; empty: none, whatever the environment says
	// Token returns the bearer token of one download; nil: none is sent.
	Token func(context.Context) (string, error)
}

// BundleKey is a public key in PEM that may sign a bundle.
type BundleKey struct {
	ID        string
	File      string
	Algorithm string // "RS256" and the like; see BundleAlgorithms
	Scope     string // what the signature's scope claim must be; empty: none
}

// content is a bundle that was read, verified and found to be in order. It never
// changes.
type content struct {
	digest   string // hex SHA-256 of the archive
	revision string // what .manifest says
	roots    []string
	signer   string // id of the key; empty: unsigned
	policy   []source
	tests    []source
	unread   Problems
	raw      []byte // the archive
}

// readBundle opens an archive: within bounds, verified before anything in it is
// parsed, and every file within the roots of its manifest. at is how messages
// call the bundle. The error is of type Problems, or that of ctx.
func readBundle(ctx context.Context, at string, raw []byte, o *BundleOptions, keys []loadedKey, builtins []string) (*content, error) {
	files, err := unpack(ctx, raw)
	if err != nil {
		if ctx.Err() != nil {
			return nil, cutShort(ctx)
		}
		return nil, Problems{{File: at, Message: fmt.Sprintf("is no bundle that can be loaded: %v", err)}}
	}
	fail := func(file, format string, a ...any) (*content, error) {
		return nil, Problems{{File: inBundle(at, file), Message: fmt.Sprintf(format, a...)}}
	}
	for _, f := range files {
		if why := unfit(f.name); why != "" {
			return fail(f.name, "%s", why)
		}
	}
	signer, verification, err := signedBy(files, o, keys)
	if err != nil {
		return fail("", "%v", err)
	}
	r := bundle.NewCustomReader(&memoryLoader{files: files}).
		WithBundleVerificationConfig(verification).
		WithSizeLimitBytes(maxBundleFileBytes).
		WithBaseDir("").
		WithCapabilities(capabilities(builtins)).
		WithRegoVersion(ast.RegoV1)
	b, err := r.Read()
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	if err != nil {
		return nil, explainBundle(at, err, builtins)
	}
	if err := strictManifest(files); err != nil {
		return fail(bundle.ManifestExt, "%v", err)
	}
	sum := sha256.Sum256(raw)
	c := &content{
		digest: hex.EncodeToString(sum[:]), revision: b.Manifest.Revision, roots: slices.Clone(*b.Manifest.Roots),
		signer: signer, raw: raw,
	}
	slices.Sort(c.roots)
	for _, f := range files {
		c.add(at, f)
	}
	if problems := c.check(at); len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// inBundle is how messages name a file of a bundle.
func inBundle(at, file string) string {
	if file == "" {
		return at
	}
	return at + "/" + file
}

// unfit says why a bundle with a file of this name is not loaded: it would decide
// in a way that this host does not know. "" where it is fine.
func unfit(name string) string {
	switch base := path.Base(name); {
	case base == "patch.json":
		return "makes this a delta bundle, which cannot be signed; publish a snapshot bundle"
	case base == bundle.WasmFile:
		return "is policy compiled to WebAssembly, which this host does not run; build the bundle with the target rego"
	case base == bundle.PlanFile || base == bundle.PlanProtoFile:
		return "is policy compiled to a plan, which this host does not run; build the bundle with the target rego"
	case strings.HasSuffix(name, bundle.ManifestProtoExt):
		return "is a manifest in binary form; write .manifest as JSON"
	case strings.HasSuffix(name, bundle.ManifestExt) && name != bundle.ManifestExt,
		bundle.IsSignaturesFile(name) && path.Dir(name) != ".":
		return "must be at the top of the bundle"
	}
	return ""
}

func (c *content) add(at string, f packed) {
	s := source{
		file: inBundle(at, f.name),
		// With the revision, so that decisions of two revisions differ in theirs.
		name: fmt.Sprintf("%s@%s/%s", at, c.revision, f.name), raw: f.raw,
	}
	if dir := path.Dir(f.name); dir != "." {
		s.dirs = strings.Split(dir, "/")
	}
	base := path.Base(f.name)
	switch {
	case isTest(f.name):
		c.tests = append(c.tests, s)
	case path.Ext(base) == bundle.RegoExt, base == "data.json", bundle.IsYAMLDataFile(f.name):
		c.policy = append(c.policy, s)
	case strings.HasPrefix(base, "."): // .manifest, .signatures.json
	case reads(strings.ToLower(base)) || strings.Contains(strings.ToLower(base), bundle.RegoExt):
		c.unread = append(c.unread, Problem{File: s.file, Message: "is not read: in a bundle policy ends in .rego, and data is named data.json or data.yaml; rename it, or take it out"})
	}
}

// check holds the files to what is asked of files on disk.
func (c *content) check(at string) Problems {
	var problems Problems
	if len(c.policy) == 0 {
		problems = append(problems, Problem{File: at, Message: "has no .rego file and no data"})
	}
	for _, s := range append(slices.Clone(c.policy), c.tests...) {
		switch {
		case bytes.HasPrefix(s.raw, []byte("\ufeff")):
			problems = append(problems, Problem{File: s.file, Message: "starts with a byte order mark; save it as UTF-8 without one"})
		case !utf8.Valid(s.raw):
			problems = append(problems, Problem{File: s.file, Message: "is not UTF-8; save it as UTF-8"})
		}
	}
	return problems
}

// explainBundle turns what OPA's reader says into problems of a bundle.
func explainBundle(at string, err error, builtins []string) Problems {
	var many ast.Errors
	var one *ast.Error
	if errors.As(err, &many) || errors.As(err, &one) {
		problems := explain(err, "", builtins)
		for i := range problems {
			problems[i].File = inBundle(at, problems[i].File)
		}
		return problems
	}
	msg := strings.TrimPrefix(err.Error(), "bundle load failed on ")
	return Problems{{File: at, Message: "is not loaded: " + clip(msg, maxMessageBytes)}}
}

// memoryLoader gives OPA's reader files that were unpacked already.
type memoryLoader struct {
	bundle.DirectoryLoader // never asked: there is nothing left to filter
	files                  []packed
	next                   int
}

func (l *memoryLoader) NextFile() (*bundle.Descriptor, error) {
	if l.next == len(l.files) {
		return nil, io.EOF
	}
	f := l.files[l.next]
	l.next++
	return bundle.NewDescriptor(f.name, f.name, bytes.NewBuffer(slices.Clone(f.raw))), nil
}

// overlap finds bundles whose roots take each other's place.
func overlap(at []string, contents []*content) Problems {
	var problems Problems
	for i, a := range contents {
		for j, b := range contents[:i] {
			for _, ra := range a.roots {
				k := slices.IndexFunc(b.roots, func(rb string) bool { return bundle.RootPathsOverlap(ra, rb) })
				if k >= 0 {
					problems = append(problems, Problem{File: at[i], Message: fmt.Sprintf(
						"claims the root %q, and %s claims %q: two bundles cannot own the same part of data; give them roots apart from each other in .manifest", ra, at[j], b.roots[k])})
					break
				}
			}
		}
	}
	return problems
}
