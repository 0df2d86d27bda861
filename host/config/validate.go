package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Bounds of numbers. Output and arguments are bounded by what one commit of the
// ledger can hold; memory by what a 32-bit module can address.
const (
	maxMemoryMiB    = 4096
	maxOutputMiB    = 16
	maxArgumentsMiB = 16
	maxDiskMiB      = 1 << 30
	maxQuotaFiles   = 200_000 // a folder with more cannot be measured in time
	maxWarm         = 1000
	maxHTTPMiB      = 64

	maxTotalMemoryMiB = 16 << 20
	maxCalls          = 1_000_000
)

// validator collects what is wrong with the values of a Config.
type validator struct {
	c        *Config
	problems []Problem
}

// validate reports every value that is illegal. What Parse returns has none.
func (c *Config) validate() []Problem {
	v := &validator{c: c}
	if c.Version != Version {
		v.bad("version", fmt.Sprintf("is %d, this release reads version %d", c.Version, Version), fmt.Sprintf("write version = %d", Version))
	}
	v.path("data_dir", c.DataDir)
	v.trust()
	v.between("store.min_free_mib", c.Store.MinFreeMiB, 1, maxDiskMiB)
	v.retention()
	v.within("tickets.timeout", c.Tickets.Timeout, time.Second, 10*365*day)
	if len(c.Policy.Paths) == 0 && len(c.Policy.Bundles) == 0 {
		v.bad("policy.paths", "is empty, so every call would be blocked", `name at least one policy file or folder, such as "policy"`)
	}
	for i, p := range c.Policy.Paths {
		v.path(element("policy.paths", i), p)
	}
	v.within("policy.deadline", c.Policy.Deadline, time.Millisecond, time.Minute)
	for i, b := range c.Policy.Builtins {
		if !made(b, "abcdefghijklmnopqrstuvwxyz0123456789_.") {
			v.bad(element("policy.builtins", i), fmt.Sprintf("%q is not the name of a built-in", clip(b)), `write it as Rego does, such as "http.send"`)
		}
	}
	v.policyLog()
	if w := c.Policy.Watch; w != 0 {
		v.within("policy.watch", w, 100*time.Millisecond, day)
	}
	v.bundles()
	for i := range c.Plugins {
		v.plugin(element("plugin", i), &c.Plugins[i])
	}
	v.distinctPlugins()
	v.hostTools()
	v.between("limits.memory_mib", c.Limits.MemoryMiB, 1, maxMemoryMiB)
	v.within("limits.timeout", c.Limits.Timeout, time.Millisecond, day)
	v.between("limits.output_mib", c.Limits.OutputMiB, 1, maxOutputMiB)
	v.between("limits.arguments_mib", c.Limits.ArgumentsMiB, 1, maxArgumentsMiB)
	v.runtime()
	v.egress()
	v.sandbox()
	v.bind()
	return v.problems
}

func (v *validator) bad(key, what, remedy string) {
	v.problems = append(v.problems, Problem{File: v.c.File, Line: v.c.lines[key], Key: key, What: what, Remedy: remedy})
}

func (v *validator) between(key string, n, least, most int) {
	if n < least || n > most {
		v.bad(key, fmt.Sprintf("is %d", n), fmt.Sprintf("write a number from %d to %d", least, most))
	}
}

func (v *validator) within(key string, d, least, most time.Duration) {
	if d < least || d > most {
		v.bad(key, "is "+FormatDuration(d), fmt.Sprintf("write a duration from %s to %s", FormatDuration(least), FormatDuration(most)))
	}
}

func (v *validator) oneOf(key, value string, allowed []string) {
	if slices.Contains(allowed, value) {
		return
	}
	remedy := "write one of " + strings.Join(allowed, ", ")
	if s := closest(value, allowed); s != "" {
		remedy = fmt.Sprintf("did you mean %q? %s are known", s, strings.Join(allowed, ", "))
	}
	v.bad(key, fmt.Sprintf("%q is not known", clip(value)), remedy)
}

// file checks the file name at key; one that is not there is a problem of the
// table at parent, which has a line.
func (v *validator) file(parent, key, name string) {
	if name == "" && v.c.lines[child(parent, key)] == 0 {
		v.bad(parent, "has no "+key, "add "+key+` = "…"`)
		return
	}
	v.path(child(parent, key), name)
}

func (v *validator) path(key, name string) {
	switch {
	case name == "":
		v.bad(key, "is empty", "name a file or folder")
	case strings.ContainsRune(name, 0):
		v.bad(key, "has a zero byte", "correct the name")
	}
}

// digest checks a hex SHA-256.
func (v *validator) digest(key, s string) {
	if !isHex(s, 64) {
		v.bad(key, fmt.Sprintf("%q is not a SHA-256", clip(s)), "write 64 hexadecimal digits")
	}
}

func isHex(s string, digits int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == digits
}

// made reports whether s is not empty and has only characters of set.
func made(s, set string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

func (v *validator) trust() {
	first := map[string]int{}
	for i, k := range v.c.Trust.Keys {
		key := element("trust.keys", i)
		v.file(key, "file", k.File)
		if j, dup := first[k.File]; dup && k.File != "" {
			v.bad(child(key, "file"), "is named by "+element("trust.keys", j)+" too", "name each key once, with all its plugins")
		} else {
			first[k.File] = i
		}
		if k.Plugins != nil && len(k.Plugins) == 0 {
			v.bad(child(key, "plugins"), "is empty, so the key could sign nothing", "name plugins, or leave it out to let the key sign any")
		}
		for j, p := range k.Plugins {
			v.pattern(element(child(key, "plugins"), j), p)
		}
	}
	for i, r := range v.c.Trust.Revoked {
		if !isHex(r, 16) && !isHex(r, 64) {
			v.bad(element("trust.revoked", i), fmt.Sprintf("%q is neither a key id nor a manifest digest", clip(r)),
				"write 16 hexadecimal digits for a key, 64 for a manifest")
		}
	}
}

func (v *validator) runtime() {
	l := &v.c.Limits
	v.between("limits.total_memory_mib", l.TotalMemoryMiB, 0, maxTotalMemoryMiB)
	if l.TotalMemoryMiB > 0 && l.MemoryMiB > l.TotalMemoryMiB && v.c.lines["limits.memory_mib"] > 0 {
		v.bad("limits.memory_mib", fmt.Sprintf("is %d, and all plugins together may use limits.total_memory_mib, %d", l.MemoryMiB, l.TotalMemoryMiB),
			"lower it, or raise limits.total_memory_mib")
	}
	v.between("limits.concurrent_calls", l.ConcurrentCalls, 0, maxCalls)
	v.between("limits.queued_calls", l.QueuedCalls, 1, maxCalls)
	v.within("limits.compile_timeout", l.CompileTimeout, time.Second, day)
}

func (v *validator) retention() {
	if r := v.c.Store.Retention; r != 0 {
		v.within("store.retention", r, time.Second, 100*365*day)
	}
}

func (v *validator) egress() {
	e := &v.c.Egress
	if proxy := e.Proxy.Reveal(); proxy != "" {
		if _, err := plugins.ParseProxy(proxy); err != nil {
			v.bad("egress.proxy", err.Error(), `write it as "http://proxy.example.com:3128"`)
		}
	}
	if strings.ContainsRune(e.CAFile, 0) {
		v.path("egress.ca_file", e.CAFile)
	}
	v.within("egress.timeout", e.Timeout, 100*time.Millisecond, time.Hour)
	v.between("egress.request_mib", e.RequestMiB, 1, maxHTTPMiB)
	v.between("egress.response_mib", e.ResponseMiB, 1, maxHTTPMiB)
}

func (v *validator) bind() {
	host, port, err := net.SplitHostPort(v.c.Serve.Bind)
	_, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || strings.ContainsAny(host, " /") {
		v.bad("serve.bind", fmt.Sprintf("%q is not an address to listen on", clip(v.c.Serve.Bind)), `write host and port, such as "127.0.0.1:8421"`)
	}
}
