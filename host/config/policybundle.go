package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"
)

// PolicyBundle is one [[policy.bundle]]: an OPA bundle, where it is and who must have
// signed it.
type PolicyBundle struct {
	Name          string
	Path          string // a .tar.gz; empty when URL is set
	URL           string // https or http; empty when Path is set
	Keys          []PolicyKey
	AllowUnsigned bool          // default false
	Poll          time.Duration // between downloads; default 1m
	Timeout       time.Duration // of one download; default 10s
	MaxMiB        int           // of the archive; default 16
	Token         *SecretSource // sent as bearer token; nil: none
	CAFile        string        // certificates to trust besides the system's
	Proxy         string        // URL; empty: none, whatever the environment says
}

// PolicyKey is a public key that may sign a bundle.
type PolicyKey struct {
	ID        string
	File      string // PEM
	Algorithm string // default "RS256", as in OPA
	Scope     string // what the signature must claim; empty: nothing
}

const defaultAlgorithm = "RS256"

var bundleAlgorithms = []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}

func (c *Config) decodeBundle(t *table) PolicyBundle {
	b := PolicyBundle{Poll: defaultPoll, Timeout: defaultFetchTimeout, MaxMiB: defaultBundleMiB}
	t.text("name", &b.Name)
	t.text("path", &b.Path)
	t.text("url", &b.URL)
	b.Path = c.join(b.Path)
	for _, kt := range t.list("keys", `write each key as { id = "…", file = "…", algorithm = "RS256" }`) {
		k := PolicyKey{Algorithm: defaultAlgorithm}
		kt.text("id", &k.ID)
		kt.text("file", &k.File)
		kt.text("algorithm", &k.Algorithm)
		kt.text("scope", &k.Scope)
		k.File = c.join(k.File)
		b.Keys = append(b.Keys, k)
	}
	t.flag("allow_unsigned", &b.AllowUnsigned)
	t.duration("poll", &b.Poll)
	t.duration("timeout", &b.Timeout)
	t.integer("max_mib", &b.MaxMiB)
	token, has := t.sub("token", `write where it comes from, such as { env = "NAME" } or { file = "…" }, never the token itself`)
	if s := c.decodeSecret(token); has {
		b.Token = &s
	}
	t.text("ca_file", &b.CAFile)
	t.text("proxy", &b.Proxy)
	b.CAFile = c.join(b.CAFile)
	return b
}

func (v *validator) bundles() {
	first := map[string]string{}
	for i := range v.c.Policy.Bundles {
		key, b := element("policy.bundle", i), &v.c.Policy.Bundles[i]
		switch other, dup := first[b.Name]; {
		case b.Name == "" && v.c.lines[child(key, "name")] == 0:
			v.bad(key, "has no name", `add name = "…"; messages and the kept copy are named after it`)
		case !made(b.Name, lower+"0123456789._-") || len(b.Name) > 64 || b.Name[0] == '.' || b.Name[0] == '-' || b.Name[0] == '_':
			v.bad(child(key, "name"), fmt.Sprintf("%q cannot be the name of a bundle", clip(b.Name)), "write up to 64 characters of a-z 0-9 . _ -, a letter or digit first")
		case dup:
			v.bad(child(key, "name"), "is that of "+other+" too", "give each bundle a name of its own")
		default:
			first[b.Name] = key
		}
		v.bundlePlace(key, b)
		v.bundleKeys(key, b)
		v.within(child(key, "poll"), b.Poll, time.Second, 7*day)
		v.within(child(key, "timeout"), b.Timeout, 100*time.Millisecond, 10*time.Minute)
		v.between(child(key, "max_mib"), b.MaxMiB, 1, 256)
		if b.Token != nil {
			v.source(child(key, "token"), *b.Token)
		}
	}
}

func (v *validator) bundlePlace(key string, b *PolicyBundle) {
	pathSet, urlSet := v.c.lines[child(key, "path")] != 0, v.c.lines[child(key, "url")] != 0
	switch {
	case pathSet && urlSet:
		v.bad(key, "has a path and a url", "keep one of them")
		return
	case pathSet:
		v.path(child(key, "path"), b.Path)
		for _, name := range []string{"poll", "timeout", "token", "ca_file", "proxy"} {
			if v.c.lines[child(key, name)] != 0 {
				v.bad(child(key, name), "has no meaning for a bundle on disk", "remove it")
			}
		}
		return
	case !urlSet:
		v.bad(key, "has neither a path nor a url", `add path = "….tar.gz" or url = "https://…"`)
		return
	}
	u, err := url.Parse(b.URL)
	switch at := child(key, "url"); {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		v.bad(at, "is no address of a bundle", "write https://host/path")
	case u.User != nil:
		v.bad(at, "has a user in it", `write the credential as token = { file = "…" }`)
	case u.Scheme == "http" && !thisMachine(u.Hostname()) && b.AllowUnsigned:
		v.bad(at, "is http, and the bundle may be unsigned: everybody on the way could change the policy", "write https, or sign it and remove allow_unsigned")
	case u.Scheme == "http" && !thisMachine(u.Hostname()) && b.Token != nil:
		v.bad(at, "is http, and a token is sent: everybody on the way could read it", "write https, or remove token")
	}
	if b.Proxy != "" {
		p, err := url.Parse(b.Proxy)
		if err != nil || p.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, p.Scheme) || p.User != nil {
			v.bad(child(key, "proxy"), "is no address of a proxy", "write http://host:port, without a user")
		}
	}
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (v *validator) bundleKeys(key string, b *PolicyBundle) {
	if len(b.Keys) == 0 && !b.AllowUnsigned {
		v.bad(key, "has no keys, so nothing could be loaded from it",
			`add keys = [{ id = "…", file = "….pem" }], or allow_unsigned = true where only you write to the place it comes from`)
	}
	first := map[string]string{}
	for i, k := range b.Keys {
		at := element(child(key, "keys"), i)
		v.file(at, "file", k.File)
		switch other, dup := first[k.ID]; {
		case k.ID == "":
			v.bad(at, "has no id", `add id = "…", the name under which "policy status" shows who signed`)
		case dup:
			v.bad(child(at, "id"), "is that of "+other+" too", "give each key an id of its own")
		default:
			first[k.ID] = at
		}
		if len(k.Algorithm) > 2 && k.Algorithm[:2] == "HS" {
			v.bad(child(at, "algorithm"), "uses one secret to sign and to verify, so that whoever reads this host's files could sign policy",
				"sign with a private key and write one of RS256, PS256, ES256 and the like")
			continue
		}
		v.oneOf(child(at, "algorithm"), k.Algorithm, bundleAlgorithms)
	}
}

func (e *effective) bundle(key string, b *PolicyBundle) {
	e.add(child(key, "name"), b.Name)
	if b.Path != "" {
		e.add(child(key, "path"), b.Path)
	} else {
		e.url(child(key, "url"), b.URL)
	}
	for i, k := range b.Keys {
		at := element(child(key, "keys"), i)
		e.add(child(at, "id"), k.ID)
		e.add(child(at, "file"), k.File)
		e.add(child(at, "algorithm"), k.Algorithm)
		if k.Scope != "" {
			e.add(child(at, "scope"), k.Scope)
		}
	}
	e.add(child(key, "allow_unsigned"), b.AllowUnsigned)
	e.add(child(key, "max_mib"), b.MaxMiB)
	if b.Path != "" {
		return
	}
	e.add(child(key, "poll"), b.Poll)
	e.add(child(key, "timeout"), b.Timeout)
	if b.Token != nil {
		e.secret(child(key, "token"), *b.Token)
	}
	if b.CAFile != "" {
		e.add(child(key, "ca_file"), b.CAFile)
	}
	if b.Proxy != "" {
		e.add(child(key, "proxy"), b.Proxy)
	}
}

// url shows an address without its query, where people keep credentials.
func (e *effective) url(key, address string) {
	u, err := url.Parse(address)
	if err != nil {
		e.hide(key)
		return
	}
	if u.RawQuery != "" {
		u.RawQuery = redacted
	}
	e.add(key, u.String())
}
