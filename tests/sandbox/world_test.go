package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// What the tests run with, set by TestMain.
var (
	root   string // of the repository
	binary string // the program, as it is shipped, with the Hand beside it
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "awaken-sandbox")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // engines of other users read the Hand
		return fail(err)
	}
	binary = filepath.Join(dir, "awaken-host")
	for name, source := range map[string]string{binary: "./cmd/awaken-host", filepath.Join(dir, "awaken-hand"): "./cmd/awaken-hand"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name, source)
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fail(fmt.Errorf("%v: %w\n%s", build, err, out))
		}
	}
	return m.Run()
}

// settings are the lines of [sandbox] for a tier on the engines of the tests. Where its
// engine is missing the test is skipped, or fails where CI is "true".
func settings(t testing.TB, tier string) string {
	t.Helper()
	quoted := func(list ...string) string {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	switch tier {
	case "namespace":
		if _, err := exec.LookPath("bwrap"); err != nil {
			missing(t, "bwrap is missing; to install it: apt-get install bubblewrap")
		}
	case "docker":
		d := sandboxtest.NeedDocker(t)
		return fmt.Sprintf("image = %q\n[sandbox.docker]\ncommand = %s\n", d.Image, quoted(d.Binary, "--host", d.Host))
	case "podman":
		p := sandboxtest.NeedPodman(t)
		return fmt.Sprintf("image = %q\nengine_args = %s\n[sandbox.podman]\ncommand = %s\n", p.Image, quoted(p.RunArgs...), quoted(append([]string{p.Binary}, p.Args...)...))
	case "k8s":
		k := sandboxtest.NeedKube(t)
		return fmt.Sprintf("image = %q\n[sandbox.k8s]\nkubeconfig = %q\nnamespace = %q\nhand_image = %q\n", k.Image, k.Kubeconfig, k.Namespace, sandboxtest.HandImage(t))
	}
	return ""
}

func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// world is a folder with host.toml and plugins.
type world struct {
	t    testing.TB
	dir  string
	tier string
}

// newWorld makes a host whose sandboxes are of the tier, with the plugins that are
// named: "<kind>/<name>" below bin. more are further lines of [sandbox].
func newWorld(t testing.TB, tier, more string, plugins ...string) *world {
	t.Helper()
	return newWorldWith(t, tier, more, settings(t, tier), plugins...)
}

func newWorldWith(t testing.TB, tier, more, lines string, plugins ...string) *world {
	t.Helper()
	w := &world{t: t, tier: tier, dir: t.TempDir()}
	w.write("policy/all.rego", "package awaken.policy\nallow contains \"test\" if input.tool.id\n")
	var b strings.Builder
	fmt.Fprintf(&b, "version = 1\ndata_dir = \"data\"\n[trust]\nkeys = [{ file = \"keys/test.pub\" }]\n[policy]\npaths = [\"policy\"]\ndeadline = \"10s\"\n[sandbox]\ntier = %q\n%s\n%s\n", tier, more, lines)
	w.must("", "plugin", "keygen", "keys/test")
	for _, p := range plugins {
		name := filepath.Base(p)
		source := filepath.Join(root, "bin", filepath.FromSlash(p))
		if _, err := os.Stat(filepath.Join(source, "plugin.toml")); err != nil {
			missing(t, fmt.Sprintf("the plugin %s is not built: run make guests", name))
		}
		to := filepath.Join(w.dir, "plugins", name)
		if err := os.CopyFS(to, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		w.must("", "plugin", "sign", to, "--key", "keys/test.key")
		fmt.Fprintf(&b, "[[plugin]]\npath = \"plugins/%s\"\n%s", name, grants[name])
	}
	w.write("host.toml", b.String())
	return w
}

const granted = "[plugin.grant]\npaths = { \"/workspace\" = { mode = \"rw\" } }\n"

var grants = map[string]string{
	"workspace": granted,
	"search":    granted + "commands = [\"grep\"]\n",
	"exec":      granted + "commands = [\"sh\"]\n",
}

func (w *world) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// command is the program, not started yet.
func (w *world) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Stdin = w.dir, strings.NewReader(stdin)
	return cmd
}

// must runs the program, and returns its standard output.
func (w *world) must(stdin string, args ...string) []byte {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := w.command(ctx, stdin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("awaken-host %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// call is one of a batch.
type call struct {
	ID        string `json:"id"`
	Tool      string `json:"tool"`
	Arguments any    `json:"arguments"`
}

func message(t testing.TB, calls ...call) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// result is what the program prints of a batch.
type result struct {
	Phase   string    `json:"phase"`
	Results []outcome `json:"results"`
}

type outcome struct {
	CallID  string          `json:"call_id"`
	Tool    string          `json:"tool"`
	Phase   string          `json:"phase"`
	IsError bool            `json:"is_error"`
	Content json.RawMessage `json:"content"`
	// Executed says where it ran.
	Executed *struct {
		Tier string `json:"tier"`
	} `json:"executed"`
}

func (o *outcome) tier() string {
	if o.Executed == nil {
		return ""
	}
	return o.Executed.Tier
}

// batch executes one.
func (w *world) batch(run string, calls ...call) *result {
	w.t.Helper()
	out := w.must(message(w.t, calls...), "-q", "run", "--run", run, "-")
	r := &result{}
	if err := json.Unmarshal(out, r); err != nil {
		w.t.Fatalf("%v in %s", err, out)
	}
	if len(r.Results) != len(calls) {
		w.t.Fatalf("%d results of %d calls: %s", len(r.Results), len(calls), out)
	}
	return r
}

// took is how long each call of the first batch of a run took.
func (w *world) took(run string) (list []time.Duration) {
	w.t.Helper()
	var view struct {
		Batches []struct {
			Calls []struct {
				StartedAt time.Time `json:"started_at"`
				EndedAt   time.Time `json:"ended_at"`
			} `json:"calls"`
		} `json:"batches"`
	}
	out := w.must("", "runs", "show", run, "-o", "json")
	if err := json.Unmarshal(out, &view); err != nil || len(view.Batches) == 0 {
		w.t.Fatalf("runs show: %v in %s", err, out)
	}
	for _, c := range view.Batches[0].Calls {
		list = append(list, c.EndedAt.Sub(c.StartedAt))
	}
	return list
}
