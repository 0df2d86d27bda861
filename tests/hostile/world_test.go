package hostile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What the tests run with, set by TestMain.
var (
	binary string // the program, as it is shipped
	guests string // the folder of built guests
)

const howToBuild = "run: make guests (it needs clang, lld, wasi-libc and wabt: apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32 wabt)"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	root, err := filepath.Abs("../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	// Most of an attack is waiting for its timeout.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *update { // which needs no guests
		return m.Run()
	}
	guests = filepath.Join(root, "bin", "hostile")
	if _, err := os.Stat(filepath.Join(guests, "neighbour.wasm")); err != nil {
		if os.Getenv("CI") == "true" {
			fmt.Fprintf(os.Stderr, "the hostile guests are not built in %s; %s\n", guests, howToBuild)
			return 1
		}
		fmt.Fprintf(os.Stderr, "skipped: the hostile guests are not built; %s\n", howToBuild)
		return 0
	}
	dir, err := os.MkdirTemp("", "awaken-hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "awaken-host")
	build := exec.Command("go", "build", "-trimpath", "-o", dir, "./cmd/awaken-host", "./cmd/awaken-hand")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
		return 1
	}
	return m.Run()
}

// Things that no attack may get hold of. Each is somewhere that one might try.
const (
	canaryFile        = "canary-of-a-file-outside-5f1c"
	canaryEnvironment = "canary-of-the-environment-77d0"
	canaryServer      = "canary-of-a-server-inside-a41e"
	canaryNeighbour   = "canary-of-another-plugin-93be"
	canaryOwn         = "canary-of-its-own-secret-c07d"
)

// maxResident bounds the memory of the whole process: it has guests of at most
// 32 MiB.
const maxResident = 400 << 20

// attacked is the run of every attack.
const attacked = "attacked"

// world is a host with an attack, a neighbour, and things around.
type world struct {
	t         *testing.T
	tier      string
	dir       string
	env       []string
	addresses *strings.Replacer // of the servers, for HTTP and OTHER
}

func newWorld(t *testing.T, tier string, a attack) *world {
	t.Helper()
	w := &world{t: t, tier: tier, dir: t.TempDir()}
	w.servers()
	w.write("policy/policy.rego", "package awaken.policy\nallow contains \"test\" if input.tool.id\n")
	encoding := a.encoding
	if encoding == "" {
		encoding = "json"
	}
	timeout := "30s" // a machine that is busy must not be what ends an attack
	if strings.Contains(a.fails, "timeout of 1s") {
		timeout = "1s"
	}
	tool := fmt.Sprintf("encoding = { input = \"json\", output = %q }\n%s", encoding, a.tool)
	target, plugin, sandboxed := brain, a.plugin, ""
	if tier != brain {
		target, plugin, sandboxed = "sandbox", strings.Replace(plugin, `host = "work", `, "", 1), fmt.Sprintf(inSandbox, tier)
	}
	attacker := w.plugin("attack", a.guest, target, timeout, w.addresses.Replace(a.capabilities), tool+a.state)
	neighbour := w.plugin("neighbour", "neighbour", target, "30s", `secrets = ["NEIGHBOUR_TOKEN"]`, count)
	w.write("host.toml", fmt.Sprintf(`version = 1
data_dir = "data"
[policy]
deadline = "10s" # a busy machine is no attack
%s
[[plugin]]
path = "plugins/attack"
sha256 = "%s"
%s
[[plugin]]
path = "plugins/neighbour"
sha256 = "%s"
[plugin.secrets]
NEIGHBOUR_TOKEN = { env = "NEIGHBOUR_TOKEN" }
`, sandboxed, attacker, w.addresses.Replace(plugin), neighbour))
	w.folder(a.capabilities == workspace)
	w.env = append(os.Environ(), "AWAKEN_CANARY="+canaryEnvironment, "NEIGHBOUR_TOKEN="+canaryNeighbour, "ATTACK_TOKEN="+canaryOwn,
		w.addresses.Replace("HTTP_PROXY=http://OTHER"), w.addresses.Replace("http_proxy=http://OTHER"), w.addresses.Replace("ALL_PROXY=http://OTHER"))
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// plugin writes a plugin and returns the digest that pins it: an author who wants to
// do harm does not ask the host to look at the module first.
func (w *world) plugin(id, guest, tier, timeout, capabilities, tool string) string {
	w.t.Helper()
	module, err := os.ReadFile(filepath.Join(guests, guest+".wasm"))
	if err != nil {
		w.t.Fatal(err)
	}
	sum := sha256.Sum256(module)
	w.write("plugins/"+id+"/guest.wasm", string(module))
	manifest := fmt.Sprintf(`manifest = 1
id = %q
version = "1.0.0"
description = "A guest of a test"
[module]
path = "guest.wasm"
sha256 = "%x"
abi = "extism"
[capabilities]
memory_mib = 32
timeout = %q
%s
[[tool]]
id = "run"
export = "run"
description = "Runs"
target = %q
%s`, id, sum, timeout, capabilities, tier, tool)
	w.write("plugins/"+id+"/plugin.toml", manifest)
	pin := sha256.Sum256([]byte(manifest))
	return hex.EncodeToString(pin[:])
}

// result is what the program printed.
type result struct {
	Phase   string `json:"phase"`
	Results []struct {
		CallID   string `json:"call_id"`
		IsError  bool   `json:"is_error"`
		Executed *ranIn `json:"executed"`
		Content  []struct {
			Text string          `json:"text"`
			JSON json.RawMessage `json:"json"`
		} `json:"content"`
	} `json:"results"`
}

// ranIn is where a call ran.
type ranIn struct {
	Target string `json:"target"`
	Tier   string `json:"tier"`
}

// text is the one block of a result.
func (r *result) text(i int) string {
	var b strings.Builder
	for _, c := range r.Results[i].Content {
		b.WriteString(c.Text)
		b.Write(c.JSON)
	}
	return b.String()
}

// run executes a batch and holds the program to what it promises always. It returns
// nil and standard error when the host did not start.
func (w *world) run(batch string) (*result, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "run", "-c", "host.toml", "--run", attacked, "-")
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, w.env, strings.NewReader(batch)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		w.t.Fatalf("the program did not end within a minute\n%s", stderr.String())
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		if resident := usage.Maxrss << 10; resident > maxResident {
			w.t.Errorf("the program took %d MiB, at most %d are in order", resident>>20, maxResident>>20)
		}
	}
	for _, canary := range []string{canaryFile, canaryEnvironment, canaryServer, canaryNeighbour, canaryOwn} {
		if strings.Contains(stdout.String(), canary) || strings.Contains(stderr.String(), canary) {
			w.t.Errorf("%q came out:\n%s\n%s", canary, stdout.String(), stderr.String())
		}
	}
	if i := bytes.IndexAny(stderr.Bytes(), "\x1b\x07\u009b"); i >= 0 {
		w.t.Errorf("a control character reached standard error at %d:\n%q", i, stderr.String())
	}
	if lines := strings.Count(stderr.String(), "\n"); lines > 200 || stderr.Len() > 64<<10 {
		w.t.Errorf("%d lines and %d bytes of log came of one attack", lines, stderr.Len())
	}
	w.unchanged()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		if stdout.Len() > 0 {
			w.t.Errorf("refused, with something on standard output: %q", stdout.String())
		}
		return nil, stderr.String()
	}
	if err != nil {
		w.t.Fatalf("%v\n%s", err, stderr.String())
	}
	r := &result{}
	d := json.NewDecoder(&stdout)
	if err := d.Decode(r); err != nil || d.More() {
		w.t.Fatalf("standard output is not one JSON value: %v", err)
	}
	w.remembersNothing()
	return r, stderr.String()
}

// unchanged looks at what is outside of the granted folder.
func (w *world) unchanged() {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "outside"))
	if err != nil || len(entries) != 2 {
		w.t.Errorf("outside of the granted folder are now %v: %v", entries, err)
	}
	for _, name := range []string{"canary.txt", "hard.txt"} {
		if data, err := os.ReadFile(filepath.Join(w.dir, "outside", name)); err != nil || string(data) != canaryFile {
			w.t.Errorf("%s outside of the granted folder holds %q: %v", name, data, err)
		}
	}
}

// remembersNothing looks for what is secret in all that the host keeps.
func (w *world) remembersNothing() {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == foundHard {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, canary := range []string{canaryFile, canaryEnvironment, canaryServer, canaryNeighbour, canaryOwn} {
			if bytes.Contains(data, []byte(canary)) {
				w.t.Errorf("%q is in %s", canary, path)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}
