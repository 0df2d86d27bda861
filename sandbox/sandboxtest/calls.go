package sandboxtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// plugin is a built plugin as a Hand gets it.
type plugin struct {
	image  sandbox.PluginImage
	module []byte
}

// load reads a plugin that make guests has built: kind is "guests" or "plugins".
// It is granted all that its manifest asks for.
func load(t testing.TB, kind, name string) *plugin {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "bin", kind, name)
	manifest, err := os.ReadFile(filepath.Join(dir, plugins.ManifestFile))
	if err != nil {
		missing := fmt.Sprintf("the plugin %s is not built: run make guests (it needs clang, lld and wasi-libc)", name)
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	m, err := plugins.ParseManifest(plugins.ManifestFile, manifest)
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(dir, m.Module.Path)) //nolint:gosec // likewise
	if err != nil {
		t.Fatal(err)
	}
	code, text := sha256.Sum256(module), sha256.Sum256(manifest)
	m.Module.SHA256 = hex.EncodeToString(code[:])
	p := &plugin{module: module, image: sandbox.PluginImage{
		Key: name + "-" + m.Module.SHA256, Manifest: m, Digest: hex.EncodeToString(text[:]), Effective: m.Capabilities,
		OutputMiB: plugins.DefaultLimits.OutputMiB, Paths: map[string]plugins.PathGrant{}, Tools: map[string]string{},
	}}
	for path, mode := range m.Capabilities.Paths {
		p.image.Paths[path] = plugins.PathGrant{Host: path, Mode: mode}
	}
	for _, tool := range m.Tools {
		p.image.Tools[tool.ID] = m.ID + plugins.NameSeparator + tool.ID
	}
	return p
}

// with is p with another module, and one of its tools only.
func (p *plugin) with(module []byte, tool string) *plugin {
	sum := sha256.Sum256(module)
	m := *p.image.Manifest
	m.Module.SHA256 = hex.EncodeToString(sum[:])
	m.Tools = slices.DeleteFunc(slices.Clone(m.Tools), func(t plugins.ToolSpec) bool { return t.ID != tool })
	other := &plugin{module: module, image: p.image}
	other.image.Manifest, other.image.Key = &m, m.ID+"-"+m.Module.SHA256
	other.image.Tools = map[string]string{tool: p.image.Tools[tool]}
	return other
}

// know makes a plugin known to the Hand, once.
func (b *boundary) know(ctx context.Context, p *plugin) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[p.image.Key] {
		return nil
	}
	image, err := json.Marshal(p.image)
	if err != nil {
		return err
	}
	var answer sandbox.PluginKnown
	if err := b.send(ctx, sandbox.MethodPlugin, struct{}{}, image, &answer); err != nil {
		return fmt.Errorf("the plugin %s: %w", p.image.Manifest.ID, err)
	}
	if answer.NeedModule {
		offer := sandbox.ModuleOffer{SHA256: p.image.Manifest.Module.SHA256, Bytes: int64(len(p.module))}
		if err := b.send(ctx, sandbox.MethodModule, offer, p.module, nil); err != nil {
			return fmt.Errorf("the module of %s: %w", p.image.Manifest.ID, err)
		}
	}
	b.known[p.image.Key] = true
	return nil
}

// send makes a request with a body.
func (b *boundary) send(ctx context.Context, method string, params any, body []byte, result any) error {
	s, err := b.ch.Open(ctx, method, params)
	if err != nil {
		return err
	}
	if _, err := s.Write(body); err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	return s.Result(result)
}

// params name the next call of a tool.
func (b *boundary) params(p *plugin, tool string) sandbox.CallParams {
	n := int(b.calls.Add(1))
	return sandbox.CallParams{
		Plugin: p.image.Key, Tool: tool, Run: "run", Step: 1, Index: n, ID: batch.CallID(fmt.Sprintf("c%d", n)),
		Name: batch.ToolID(p.image.Tools[tool]), Attempt: 1, ToolDigest: p.image.Digest,
	}
}

// call makes the next call of a tool.
func (b *boundary) call(ctx context.Context, p *plugin, tool string, arguments any) (*batch.Output, error) {
	return b.callAs(ctx, p, b.params(p, tool), arguments)
}

func (b *boundary) callAs(ctx context.Context, p *plugin, params sandbox.CallParams, arguments any) (*batch.Output, error) {
	if err := b.know(ctx, p); err != nil {
		return nil, err
	}
	args, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(sandbox.CallBody{Arguments: args})
	if err != nil {
		return nil, err
	}
	s, err := b.ch.Open(ctx, sandbox.MethodCall, params)
	if err != nil {
		return nil, err
	}
	if _, err := s.Write(body); err != nil {
		return nil, err
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	out := &batch.Output{}
	if err := sandbox.ReadJSON(s, 64<<20, out); err != nil {
		return nil, err
	}
	return out, s.Result(nil)
}

// must makes a call that succeeds.
func (b *boundary) must(p *plugin, tool string, arguments any) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	out, err := b.call(ctx, p, tool, arguments)
	if err != nil {
		b.t.Fatalf("%s: %v", tool, err)
	}
	if out.IsError {
		b.t.Fatalf("%s failed: %s", tool, text(out))
	}
	return text(out)
}

// command is what awaken_exec is asked for.
type command struct {
	Argv      []string          `json:"argv"`
	Dir       string            `json:"cwd,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     string            `json:"stdin,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
}

// ran is what it answers.
type ran struct {
	Error           string `json:"error"`
	ExitCode        int    `json:"exit_code"`
	Signal          string `json:"signal"`
	TimedOut        bool   `json:"timed_out"`
	Limit           string `json:"limit"`
	Stdout          string `json:"stdout"`
	StdoutBase64    []byte `json:"stdout_base64"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StdoutDropped   int64  `json:"stdout_dropped"`
	Stderr          string `json:"stderr"`
	StderrTruncated bool   `json:"stderr_truncated"`
}

// runAs runs a command by the tool of the guest exec.
func (b *boundary) runAs(ctx context.Context, tool string, c command) (r ran, err error) {
	out, err := b.call(ctx, load(b.t, "guests", "exec"), tool, c)
	if err != nil {
		return r, err
	}
	if out.IsError || len(out.Content) != 1 {
		return r, fmt.Errorf("the call failed: %s", text(out))
	}
	return r, json.Unmarshal(out.Content[0].JSON, &r)
}

// shell runs a script to its end; it may fail.
func (b *boundary) shell(script string) ran {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r, err := b.runAs(ctx, "run", command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		b.t.Fatalf("sh -c %q: %v", script, err)
	}
	if r.Error != "" {
		b.t.Fatalf("sh -c %q was not run: %s", script, r.Error)
	}
	return r
}

// held is a command that runs until it is ended from outside.
type held struct {
	mark   string // in the command line of each of its processes
	cancel context.CancelFunc
	done   chan struct{}
	ran    ran
	err    error
	took   time.Duration
}

// hold starts a command that leaves its session behind, and waits until it runs.
func (b *boundary) hold(timeout time.Duration) *held {
	b.t.Helper()
	mark := newNonce()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	h := &held{mark: mark, cancel: cancel, done: make(chan struct{})}
	// A shell that has something left to do stays, with the mark in its arguments.
	sleeper := "sleep 1000; : " + mark
	script := fmt.Sprintf("setsid sh -c '%s' >/dev/null 2>&1 & sh -c '%s' & %s", sleeper, sleeper, sleeper)
	begun := time.Now()
	go func() {
		defer close(h.done)
		h.ran, h.err = b.runAs(ctx, "run", command{Argv: []string{"sh", "-c", script}, TimeoutMS: timeout.Milliseconds()})
		h.took = time.Since(begun)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-h.done
	})
	eventually(b.t, "three shells of the command run", func() bool {
		select {
		case <-h.done:
			return true
		default:
			return len(running(b.t, mark)) >= 3
		}
	})
	return h
}

// gone waits for every process of the command to have ended.
func (h *held) gone(t testing.TB) {
	t.Helper()
	eventually(t, "nothing of the command runs", func() bool { return len(running(t, h.mark)) == 0 })
}

// text is the one text of an output, or its JSON.
func text(o *batch.Output) string {
	var s strings.Builder
	for _, c := range o.Content {
		if c.Type == batch.BlockText {
			s.WriteString(c.Text)
			continue
		}
		s.Write(c.JSON)
	}
	return s.String()
}
