package wasm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

const theSecret = `s3cr3t/"pass" & wörd`

// secretSource gives what resolve gives.
type secretSource struct {
	resolve func(context.Context) ([]byte, error)
	reads   atomic.Int64
}

func (s *secretSource) Resolve(ctx context.Context) ([]byte, error) {
	s.reads.Add(1)
	return s.resolve(ctx)
}
func (*secretSource) String() string { return "a test's source" }

func always(value string) *secretSource {
	return &secretSource{resolve: func(context.Context) ([]byte, error) { return []byte(value), nil }}
}

// secretPlugin is given API_TOKEN where source is not nil.
func secretPlugin(tb testing.TB, source plugins.SecretSource) *plugins.Plugin {
	text := encoding("text:t", "text")
	blocks := encoding("text:t", "blocks")
	p := newPlugin(guest(tb, "keeper"), plugins.ABIExtism,
		tool("gives", text, named("text")), tool("gives", encoding("text:t", "json"), named("json")), tool("gives", blocks, named("blocks")),
		tool("fails", text), tool("gives_and_fails", text), tool("exits", text), tool("logs", encoding("text:t", "json")), tool("prints", encoding("text:t", "json")),
		tool("fetches", text), tool("measures"), tool("keeps", text, isolation(plugins.IsolationShared)), tool("asks", text))
	p.Manifest.Capabilities.Secrets = []string{"API_TOKEN", "OTHER"}
	p.Manifest.State = []plugins.StateSpec{{Key: "k"}}
	if source != nil {
		p.Effective.Secrets, p.Secrets = []string{"API_TOKEN"}, map[string]plugins.SecretSource{"API_TOKEN": source}
	}
	return p
}

func textArg(s string) string {
	b, _ := json.Marshal(map[string]string{"t": s})
	return string(b)
}

// hidden fails when the secret, or an end of it, is in text in a form that
// anybody would recognise.
func hidden(tb testing.TB, where, text string) {
	tb.Helper()
	asJSON, _ := json.Marshal(theSecret)
	for _, form := range []string{
		theSecret, string(asJSON[1 : len(asJSON)-1]), hex.EncodeToString([]byte(theSecret)),
		base64.StdEncoding.EncodeToString([]byte(theSecret)), "s3cr3t", "wörd", base64.StdEncoding.EncodeToString([]byte(theSecret))[:12],
	} {
		if strings.Contains(text, form) {
			tb.Errorf("%s shows %q: %s", where, form, clip(text))
		}
	}
}

func TestSecretInEveryChannel(t *testing.T) {
	blob := func(kind string) string {
		return `{"content":[{"type":"` + kind + `","mime_type":"x/y","data":"@b"}]}`
	}
	var logged bytes.Buffer
	g := newRig(t, newRuntime(t, Options{Logger: logTo(&logged)}), secretPlugin(t, always(theSecret+"\n")))
	const mark = "[redacted:API_TOKEN]"
	known := &plugins.Redactor{}
	known.Add("API_TOKEN", []byte(theSecret))
	longest := known.Longest()
	for _, c := range []struct {
		tool, in string
		want     string // of the JSON of the output's content
		failed   bool
	}{
		{"text", "a @p b @h c @b d", `[{"type":"text","text":"a ` + mark + ` b ` + mark + ` c ` + mark + ` d"}]`, false},
		{"json", `{"x":["\u0073@h"],"@h":1}`, `[{"type":"json","json":{"x":["s` + mark + `"],"` + mark + `":1}}]`, false},
		{"blocks", `{"content":[{"type":"text","text":"<@b>"},{"type":"json","json":{"a":"@h"}}]}`,
			`[{"type":"text","text":"<` + mark + `>"},{"type":"json","json":{"a":"` + mark + `"}}]`, false},
		{"blocks", `{"content":[{"type":"resource","uri":"x://@h","mime_type":"@h","text":"@b"}]}`,
			`[{"type":"resource","text":"` + mark + `","mime_type":"` + mark + `","uri":"x://` + mark + `"}]`, false},
		{"blocks", `{"content":[{"type":"resource","uri":"x://y","data":"@b"}]}`,
			`[{"type":"resource","data":"` + base64.StdEncoding.EncodeToString([]byte(mark)) + `","uri":"x://y"}]`, false},
		{"blocks", blob("image"), `[{"type":"text","text":"` + mark + ` (the image held the value of a secret)"}]`, false},
		{"blocks", blob("audio"), `[{"type":"text","text":"` + mark + ` (the audio held the value of a secret)"}]`, false},
		{"blocks", `{"content":[],"state":[{"op":"set","key":"k","value":{"a":["@h"]}}]}`, `state key \"k\"`, true},
		{"blocks", `{"content":[],"state":[{"op":"append","key":"k","value":"@b"}]}`, "nothing of its result is kept", true},
		{"blocks", `{"content":[],"state":[{"op":"delete","key":"@h"}]}`, `state key \"` + mark + `\"`, true},
		{"blocks", `{"@h":1}`, `unknown field \"` + mark + `\"`, true},
		{"blocks", `{"content":[{"type":"text","text":"@h"}],"is_error":true}`, mark, true},
		{"json", `@p`, "its output is not one JSON value", true},
		{"fails", "because of @p", "because of " + mark, true},
		{"fails", strings.Repeat("x", maxErrorText/2-10) + "@p" + strings.Repeat("y", maxErrorText), mark[:5], true},
		{"gives_and_fails", "half @b", "half " + mark, true},
		{"exits", "on stderr @p", "on stderr " + mark, true},
		{"exits", "@p" + strings.Repeat("z", maxTail-8), mark + "zzz", true},
		{"exits", "@p" + strings.Repeat("z", maxTail+longest-8), "exit status 3: …", true},
		{"fetches", "https://api.example.com/?key=@h", "api.example.com", true},
		{"fetches", "no URL: @p", "the URL cannot be parsed", true},
		{"logs", "line @p\nline @h and @b", `[{"type":"json","json":"said"}]`, false},
		{"prints", strings.Repeat("w", maxLogLine-4) + "@p", `[{"type":"json","json":"said"}]`, false},
		{"prints", strings.Repeat("w", maxLogLine+1+longest-10) + "@p", `[{"type":"json","json":"said"}]`, false},
	} {
		out := g.call(c.tool, textArg(c.in))
		got, err := json.Marshal(out.Content)
		if err != nil {
			t.Fatal(err)
		}
		unescaped := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(got))
		if out.IsError != c.failed || (c.failed && !strings.Contains(unescaped, c.want)) || (!c.failed && unescaped != c.want) {
			t.Errorf("%s %s: error %v, %s", c.tool, clip(c.in), out.IsError, clip(unescaped))
		}
		if out.State != nil {
			t.Errorf("%s %s: state %v", c.tool, clip(c.in), out.State)
		}
		hidden(t, c.tool, string(got))
	}
	hidden(t, "the log", logged.String())
	for _, source := range []string{"source=extism", "source=awaken_log", "source=awaken_progress", "source=stdout", "source=stderr"} {
		if n := strings.Count(logged.String(), source); n == 0 {
			t.Errorf("the log lacks %s", source)
		}
	}
	if n := strings.Count(logged.String(), mark); n < 10 {
		t.Errorf("%d marks in the log: %s", n, logged.String())
	}
}

func TestSecretArrives(t *testing.T) {
	for _, value := range []string{theSecret, "tab\tnew line\nback\\slash \u20ac \U0001f600 <tag> \u2028 \x01", strings.Repeat("long ", 5000)} {
		g := newRig(t, newRuntime(t, Options{}), secretPlugin(t, always(value)))
		good(t, g.call("measures", `{}`), fmt.Sprint(len(value)))
	}
}

// Each of these is an answer to the guest, which goes on.
func TestSecretRequests(t *testing.T) {
	broken := &secretSource{resolve: func(context.Context) ([]byte, error) { return nil, errors.New("the vault is sealed") }}
	for _, c := range []struct {
		name   string
		source plugins.SecretSource
		in     string
		want   []string
		logged []string
	}{
		{"given", always("correct horse"), `{"name":"API_TOKEN"}`, []string{`{"value":"correct horse"}`}, nil},
		{"asked for and not given", always("correct horse"), `{"name":"OTHER"}`, []string{`"error":"awaken_secret_get`, "not given to this plugin", "[plugin.secrets]"},
			[]string{"level=WARN", "secret=OTHER", "plugin=t", "not given"}},
		{"neither", always("correct horse"), `{"name":"NONE"}`, []string{"not given to this plugin"}, []string{"secret=NONE"}},
		{"nothing given", nil, `{"name":"API_TOKEN"}`, []string{"not given to this plugin"}, []string{"secret=API_TOKEN"}},
		{"unreadable", broken, `{"name":"API_TOKEN"}`, []string{"API_TOKEN cannot be read now"}, []string{"level=WARN", "from a test's source: the vault is sealed", "operation=run/1/0"}},
		{"too short", always("short"), `{"name":"API_TOKEN"}`, []string{"API_TOKEN cannot be read now"}, []string{"shorter than 8 bytes"}},
		{"odd request", always("correct horse"), `{"names":1}`, []string{`the request is not {\"name\":\"…\"}`}, nil},
		{"no request", always("correct horse"), ``, []string{`the request is not`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged bytes.Buffer
			g := newRig(t, newRuntime(t, Options{Logger: logTo(&logged)}), secretPlugin(t, c.source))
			out := g.call("asks", textArg(c.in))
			turned, err := hex.DecodeString(out.Text())
			if err != nil || out.IsError {
				t.Fatalf("%v, %s", err, out.Text())
			}
			for i := range turned {
				turned[i] ^= 0xff
			}
			for _, w := range c.want {
				if !strings.Contains(string(turned), w) {
					t.Errorf("the answer %s lacks %q", turned, w)
				}
			}
			for _, w := range c.logged {
				if !strings.Contains(logged.String(), w) {
					t.Errorf("the log lacks %q: %s", w, logged.String())
				}
			}
			for _, never := range []string{"sealed", "test's source"} {
				if strings.Contains(string(turned), never) {
					t.Errorf("the guest hears of %q: %s", never, turned)
				}
			}
			if strings.Contains(logged.String(), "short\"") || strings.Contains(logged.String(), "correct") {
				t.Errorf("the log shows a value: %s", logged.String())
			}
		})
	}
}

// A secret is read once in a call, and anew in the next one. What an instance kept
// of an older value is still found.
func TestSecretRotates(t *testing.T) {
	var value atomic.Value
	source := &secretSource{resolve: func(context.Context) ([]byte, error) { return []byte(value.Load().(string)), nil }}
	g := newRig(t, newRuntime(t, Options{}), secretPlugin(t, source))
	for i, v := range []string{"first value", "the second value"} {
		value.Store(v)
		good(t, g.call("measures", `{}`), fmt.Sprint(len(v)))
		if n := source.reads.Load(); n != int64(i+1) {
			t.Errorf("read %d times in %d calls", n, i+1)
		}
	}
	good(t, g.call("keeps", textArg("")), "kept")
	value.Store("a third value")
	good(t, g.call("keeps", textArg("")), "[redacted:API_TOKEN]")
}

// A source that hangs ends with the call, and is not asked again by it.
func TestSecretThatHangs(t *testing.T) {
	source := &secretSource{resolve: func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, context.Cause(ctx) }}
	p := secretPlugin(t, source)
	p.Effective.Timeout = 100 * time.Millisecond
	g := newRig(t, newRuntime(t, Options{}), p)
	begun := time.Now()
	bad(t, g.call("measures", `{}`), "longer than its timeout of 100ms")
	if took := time.Since(begun); took > 5*time.Second || source.reads.Load() != 1 {
		t.Errorf("it took %s, and %d reads", took, source.reads.Load())
	}
}

// Two plugins with secrets of one name get their own, whatever runs beside.
func TestSecretsOfSiblings(t *testing.T) {
	r := newRuntime(t, Options{})
	var wg sync.WaitGroup
	for i := range 4 {
		value := strings.Repeat("secret ", 2+i)
		g := newRig(t, r, secretPlugin(t, always(value)))
		denied := newRig(t, r, secretPlugin(t, nil))
		wg.Go(func() {
			for range 10 {
				good(t, g.call("measures", `{}`), fmt.Sprint(len(value)))
				bad(t, denied.call("measures", `{}`), "no secret")
			}
		})
	}
	wg.Wait()
}

func TestCommandSecrets(t *testing.T) {
	p := newPlugin(guest(t, "command"), plugins.ABIWASI, tool("cat", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"cat", "/awaken/secrets/API_TOKEN"} }),
		tool("other", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"cat", "/awaken/secrets/OTHER"} }),
		tool("up", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"cat", "/awaken/secrets/../call.json"} }),
		tool("size", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"size", "/awaken/secrets/API_TOKEN"} }),
		tool("list", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"list", "/awaken/secrets"} }),
		tool("list_all", encoding("json", "text"), func(s *plugins.ToolSpec) { s.Args = []string{"list", "/awaken"} }))
	p.Manifest.Capabilities.Secrets = []string{"API_TOKEN", "OTHER"}
	source := always(theSecret)
	var logged bytes.Buffer
	r := newRuntime(t, Options{Logger: logTo(&logged)})
	with := *p
	with.Effective.Secrets, with.Secrets = []string{"API_TOKEN"}, map[string]plugins.SecretSource{"API_TOKEN": source}
	g := newRig(t, r, &with)
	good(t, g.call("list_all", `{}`), "call.json\nsecrets\nstate.json\n")
	good(t, g.call("list", `{}`), "API_TOKEN\n")
	if n := source.reads.Load(); n != 0 {
		t.Errorf("listing read the secret %d times", n)
	}
	good(t, g.call("cat", `{}`), "[redacted:API_TOKEN]")
	good(t, g.call("size", `{}`), fmt.Sprintln(len(theSecret)))
	if n := source.reads.Load(); n != 2 {
		t.Errorf("two calls read the secret %d times", n)
	}
	bad(t, g.call("other", `{}`), "cannot open /awaken/secrets/OTHER: No such file")
	good(t, g.call("up", `{}`), `{"run":"run","batch":"run/6","operation":"run/6/0","attempt":1,"tool":"t__up"}`)

	source.resolve = func(context.Context) ([]byte, error) { return nil, errors.New("the vault is sealed") }
	bad(t, g.call("cat", `{}`), "cannot open /awaken/secrets/API_TOKEN: I/O error")
	if !strings.Contains(logged.String(), "the vault is sealed") || !strings.Contains(logged.String(), "secret=OTHER") {
		t.Errorf("the log does not say why: %s", logged.String())
	}
	without := newRig(t, r, p)
	bad(t, without.call("cat", `{}`), "No such file")
	bad(t, without.call("list", `{}`), "cannot list")
	good(t, without.call("list_all", `{}`), "call.json\nstate.json\n")
	hidden(t, "the log", logged.String())
}
