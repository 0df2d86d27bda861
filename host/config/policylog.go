package config

import (
	"net"
	"net/url"
	"time"
)

// PolicyLog is where decisions are written besides the ledger.
type PolicyLog struct {
	File   string        // JSON lines; empty: none
	MaxMiB int           // the file is rotated before it grows larger; default 64
	MaxAge time.Duration // and when its first line is older; 0, the default: never
	Keep   int           // rotated files kept; default 10
	Sync   bool          // each line is on disk before the call goes on; implied by require_log
	HTTP   PolicyLogHTTP
}

// PolicyLogHTTP is the server that takes OPA's decision log.
type PolicyLogHTTP struct {
	URL         string        // events go to URL/logs; empty: none
	Token       *SecretSource // of the Authorization header; nil: none
	CAFile      string        // certificates that may vouch for the server; empty: the system's
	Gzip        bool          // default true
	BatchEvents int           // most events of one request; default 1000
	BatchKiB    int           // and most KiB before compression; default 1024
	MinDelay    time.Duration // for events to gather; default 1s
	MaxDelay    time.Duration // between repetitions; default 1m
	Timeout     time.Duration // of one request; default 10s
	BufferMiB   int           // most that waits on disk; default 1024
}

// On reports whether decisions go anywhere besides the ledger.
func (l *PolicyLog) On() bool { return l.File != "" || l.HTTP.URL != "" }

func defaultPolicyLog() PolicyLog {
	return PolicyLog{MaxMiB: 64, Keep: 10, HTTP: PolicyLogHTTP{
		Gzip: true, BatchEvents: 1000, BatchKiB: 1024,
		MinDelay: time.Second, MaxDelay: time.Minute, Timeout: 10 * time.Second, BufferMiB: 1024,
	}}
}

func (c *Config) decodePolicyLog(policy *table) {
	t, l := policy.section("log"), &c.Policy.Log
	t.text("file", &l.File)
	t.integer("max_mib", &l.MaxMiB)
	t.duration("max_age", &l.MaxAge)
	t.integer("keep", &l.Keep)
	t.flag("sync", &l.Sync)
	l.File = c.join(l.File)

	t, h := t.section("http"), &l.HTTP
	t.text("url", &h.URL)
	token, has := t.sub("token", `write where it comes from, such as { env = "NAME" } or { file = "…" }, never the token itself`)
	if s := c.decodeSecret(token); has {
		h.Token = &s
	}
	t.text("ca_file", &h.CAFile)
	t.flag("gzip", &h.Gzip)
	t.integer("batch_events", &h.BatchEvents)
	t.integer("batch_kib", &h.BatchKiB)
	t.duration("min_delay", &h.MinDelay)
	t.duration("max_delay", &h.MaxDelay)
	t.duration("request_timeout", &h.Timeout)
	t.integer("buffer_mib", &h.BufferMiB)
	h.CAFile = c.join(h.CAFile)
}

func (v *validator) policyLog() {
	l := &v.c.Policy.Log
	if v.c.Policy.RequireLog && !l.On() {
		v.bad("policy.require_log", "is true, and there is no log of decisions", `add [policy.log] with file = "…", or [policy.log.http] with url = "…"`)
	}
	v.between("policy.log.max_mib", l.MaxMiB, 1, maxDiskMiB)
	if l.MaxAge != 0 {
		v.within("policy.log.max_age", l.MaxAge, time.Minute, 10*365*day)
	}
	v.between("policy.log.keep", l.Keep, 1, 100_000)
	h := &l.HTTP
	v.between("policy.log.http.batch_events", h.BatchEvents, 1, 100_000)
	v.between("policy.log.http.batch_kib", h.BatchKiB, 1, 64<<10)
	v.within("policy.log.http.min_delay", h.MinDelay, time.Millisecond, day)
	v.within("policy.log.http.max_delay", h.MaxDelay, h.MinDelay, day)
	v.within("policy.log.http.request_timeout", h.Timeout, 10*time.Millisecond, time.Hour)
	v.between("policy.log.http.buffer_mib", h.BufferMiB, 1, maxDiskMiB)
	v.policyLogURL(h)
}

func (v *validator) policyLogURL(h *PolicyLogHTTP) {
	const key = "policy.log.http.url"
	if h.URL == "" {
		for _, part := range []string{"token", "ca_file", "gzip", "batch_events", "batch_kib", "min_delay", "max_delay", "request_timeout", "buffer_mib"} {
			if at := child("policy.log.http", part); v.c.lines[at] != 0 {
				v.bad(at, "is set, and there is no url", `add url = "https://…"`)
			}
		}
		return
	}
	const remedy = `write the address that /logs is added to, such as "https://opa.example.com"`
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		v.bad(key, "is not an http or https address", remedy) // the value may hold a password
	case u.User != nil:
		v.bad(key, "has a user or password in it", `take it out and write token = { env = "…" }`)
	case h.Token != nil && u.Scheme == "http" && !loopback(u.Hostname()):
		v.bad(key, "would carry the token in the clear", "write https")
	}
	if h.Token != nil {
		v.source("policy.log.http.token", *h.Token)
		if len(h.Token.Command) > 0 {
			v.bad("policy.log.http.token", "comes from a command", `write { env = "NAME" } or { file = "…" }`)
		}
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (e *effective) policyLog(l *PolicyLog) {
	e.add("policy.log.file", l.File)
	e.add("policy.log.max_mib", l.MaxMiB)
	e.add("policy.log.max_age", l.MaxAge)
	e.add("policy.log.keep", l.Keep)
	e.add("policy.log.sync", l.Sync)
	h := &l.HTTP
	e.add("policy.log.http.url", h.URL)
	if h.Token != nil {
		e.secret("policy.log.http.token", *h.Token)
	}
	e.add("policy.log.http.ca_file", h.CAFile)
	e.add("policy.log.http.gzip", h.Gzip)
	e.add("policy.log.http.batch_events", h.BatchEvents)
	e.add("policy.log.http.batch_kib", h.BatchKiB)
	e.add("policy.log.http.min_delay", h.MinDelay)
	e.add("policy.log.http.max_delay", h.MaxDelay)
	e.add("policy.log.http.request_timeout", h.Timeout)
	e.add("policy.log.http.buffer_mib", h.BufferMiB)
}
