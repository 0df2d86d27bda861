package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// netClient is a program for commands of the tests: it tries what its arguments say, a
// line of output for each.
const netClient = `package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

func main() {
	http.DefaultClient.Timeout = 10 * time.Second
	// By itself it would leave the proxy out for addresses of the loopback.
	if proxy, err := url.Parse(os.Getenv("http_proxy")); err == nil && proxy.Host != "" {
		http.DefaultClient.Transport = &http.Transport{Proxy: http.ProxyURL(proxy)}
	}
	for _, arg := range os.Args[1:] {
		how, what, _ := strings.Cut(arg, " ")
		switch how {
		case "get":
			resp, err := http.Get(what)
			if err != nil {
				fmt.Println(arg, "->", err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			fmt.Println(arg, "->", resp.StatusCode, strings.TrimSpace(string(body)))
		case "dial":
			_, err := net.DialTimeout("tcp", what, 2*time.Second)
			fmt.Println(arg, "->", err)
		case "name":
			_, err := net.LookupHost(what)
			fmt.Println(arg, "->", err)
		case "proxy":
			fmt.Println(arg, "->", os.Getenv("http_proxy") != "")
		}
	}
}
`

// netWorld is a host with the plugins exec, which runs the program above, and fetch in a
// sandbox. Both may reach the host pattern.
func netWorld(t *testing.T, tier, network, pattern string) *world {
	t.Helper()
	tools := t.TempDir()
	source := filepath.Join(tools, "main.go")
	if err := os.WriteFile(source, []byte(netClient), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(tools, "client"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	if err := os.Chmod(tools, 0o755); err != nil { // engines' users read it
		t.Fatal(err)
	}
	lines := settings(t, tier) + fmt.Sprintf("[[sandbox.mount]]\ntarget = \"/tools\"\nfolder = %q\n", tools)
	w := newWorldWith(t, tier, fmt.Sprintf("network = %q", network), lines, "guests/exec")
	fetch := filepath.Join(root, "bin", "guests", "fetch")
	if _, err := os.Stat(filepath.Join(fetch, "plugin.toml")); err != nil {
		missing(t, "the plugin fetch is not built: run make guests")
	}
	if err := os.CopyFS(filepath.Join(w.dir, "plugins", "fetch"), os.DirFS(fetch)); err != nil {
		t.Fatal(err)
	}
	replace := func(file string, pairs ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(w.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(string(text), pairs[i]) {
				t.Fatalf("%s has no %q", file, pairs[i])
			}
		}
		w.write(file, strings.NewReplacer(pairs...).Replace(string(text)))
	}
	hosts := fmt.Sprintf("hosts = [%q]\n", pattern)
	replace("plugins/exec/plugin.toml", "paths = { \"/workspace\" = \"rw\" }\n", "paths = { \"/workspace\" = \"rw\", \"/tools\" = \"ro\" }\n"+hosts)
	replace("plugins/fetch/plugin.toml", `hosts = ["http://localhost:PORT", "http://127.0.0.1:PORT", "*.example.test"]`, hosts, `export = "text"`, "export = \"text\"\ntarget = \"sandbox\"")
	for _, p := range []string{"exec", "fetch"} {
		w.must("", "plugin", "sign", filepath.Join("plugins", p), "--key", "keys/test.key")
	}
	replace("host.toml",
		granted+"commands = [\"sh\"]\n", "[plugin.grant]\npaths = { \"/workspace\" = { mode = \"rw\" }, \"/tools\" = { mode = \"ro\" } }\ncommands = [\"sh\"]\n"+hosts+
			"[[plugin]]\npath = \"plugins/fetch\"\n[plugin.grant]\n"+hosts)
	return w
}

// tried runs the program and returns what it printed.
func (w *world) tried(run string, attempts ...string) string {
	w.t.Helper()
	argv := append([]string{"sh", "-c", `exec /tools/client "$@"`, "sh"}, attempts...)
	r := w.batch(run, call{"c", "exec__run", map[string]any{"argv": argv}})
	var content []struct {
		JSON struct {
			Stdout, Stderr, Error string
		} `json:"json"`
	}
	if err := json.Unmarshal(r.Results[0].Content, &content); err != nil || len(content) == 0 {
		w.t.Fatalf("%v in %s", err, r.Results[0].Content)
	}
	return content[0].JSON.Stdout + content[0].JSON.Stderr + content[0].JSON.Error
}

func TestNetworkOfSandboxes(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "not for you") }))
	t.Cleanup(secret.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, secret.URL, http.StatusFound)
			return
		}
		fmt.Fprint(w, "hello ", r.URL.Path)
	}))
	t.Cleanup(server.Close)
	address, other := server.Listener.Addr().String(), secret.Listener.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	attempts := []string{
		"get " + server.URL + "/a", "get " + secret.URL, "get " + server.URL + "/away", "get https://" + other + "/",
		"get http://localhost:" + port + "/", "get http://[::1]:" + port + "/", "dial " + address, "dial 1.1.1.1:53", "name example.com", "proxy",
	}
	texts := func(w *world) (all [2]string) {
		for i, url := range []string{server.URL + "/g", secret.URL} {
			r := w.batch(fmt.Sprint("guest", i), call{"c", "fetch__text", map[string]any{"url": url}})
			all[i] = string(r.Results[0].Content)
		}
		return all
	}
	t.Run("allowlist", func(t *testing.T) {
		t.Parallel()
		w := netWorld(t, "namespace", "allowlist", "http://"+address)
		lines := strings.Split(strings.TrimSpace(w.tried("command", attempts...)), "\n")
		if len(lines) != len(attempts) {
			t.Fatalf("%d attempts, and\n%s", len(attempts), strings.Join(lines, "\n"))
		}
		for i, want := range []string{
			"-> 200 hello /a", "-> 403 ", "-> 403 ", "Forbidden",
			"-> 403 ", "-> 403 ", "refused", "unreachable", "lookup example.com", "-> true",
		} {
			if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "not for you") {
				t.Errorf("%s, want %q", lines[i], want)
			}
		}
		guest := texts(w)
		if !strings.Contains(guest[0], "hello /g") {
			t.Errorf("a guest that may: %s", guest[0])
		}
		if strings.Contains(guest[1], "not for you") || !strings.Contains(guest[1], "operator has not granted it") && !strings.Contains(guest[1], "not granted") && !strings.Contains(guest[1], "does not ask") {
			t.Errorf("a guest that may not: %s", guest[1])
		}
	})
	for _, tier := range []string{"docker", "podman"} {
		t.Run("allowlist in "+tier, func(t *testing.T) {
			t.Parallel()
			w := netWorld(t, tier, "allowlist", "http://"+address)
			got := w.tried("command", "get "+server.URL+"/a", "get "+secret.URL, "get "+server.URL+"/away", "dial 1.1.1.1:53", "name example.com")
			for _, want := range []string{"-> 200 hello /a", "get " + secret.URL + " -> 403 ", "/away -> 403 ", "unreachable", "lookup example.com"} {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q:\n%s", want, got)
				}
			}
			if guest := texts(w); strings.Contains(got+guest[1], "not for you") || !strings.Contains(guest[0], "hello /g") {
				t.Errorf("%s\n%v", got, guest)
			}
		})
	}
	t.Run("policy leaves no host", func(t *testing.T) {
		t.Parallel()
		w := netWorld(t, "namespace", "allowlist", "http://"+address)
		w.write("policy/all.rego", "package awaken.policy\nallow contains \"test\" if input.tool.id\ngrant contains {\"hosts\": []} if input.tool.id\n")
		got := w.tried("command", "get "+server.URL+"/a")
		if !strings.Contains(got, "-> 403 ") || !strings.Contains(got, "may not reach") {
			t.Errorf("a command: %s", got)
		}
		if guest := texts(w); strings.Contains(guest[0], "hello") {
			t.Errorf("a guest: %s", guest[0])
		}
	})
	t.Run("a name, and not its address", func(t *testing.T) {
		t.Parallel()
		w := netWorld(t, "namespace", "allowlist", "http://localhost:"+port)
		got := w.tried("command", "get http://localhost:"+port+"/n", "get "+server.URL+"/a")
		if strings.Contains(got, "hello /a") || !strings.Contains(got, "hello /n") || strings.Count(got, "-> 403 ") != 1 {
			t.Errorf("by its name and by its address: %s", got)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		w := netWorld(t, "namespace", "none", "http://"+address)
		got := w.tried("command", "get "+server.URL+"/a", "dial "+address, "proxy")
		if strings.Contains(got, "hello") || !strings.Contains(got, "refused") || !strings.Contains(got, "proxy -> false") {
			t.Errorf("a command reaches out: %s", got)
		}
		if guest := texts(w); strings.Contains(guest[0], "hello") || !strings.Contains(guest[0], "[sandbox].network") {
			t.Errorf("a guest: %s", guest[0])
		}
	})
}
