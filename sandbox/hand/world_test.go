package hand

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

var testKey = bytes.Repeat([]byte{7}, 32)

// world is a host's end of a channel to a Hand, and the folders of its boundary.
type world struct {
	t       *testing.T
	dir     string
	hello   sandbox.Hello
	channel *sandbox.Channel
	serve   func(ctx context.Context, s *sandbox.Stream) error
	cmd     *exec.Cmd // nil: in this process

	mu     sync.Mutex
	steps  int
	events []sandbox.LogEvent
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.hello = sandbox.Hello{
		Environment: "e1", Key: testKey, Network: sandbox.NetworkNone,
		Limits: sandbox.InstanceLimits{WorkspaceMiB: 8}, Places: map[string]string{},
	}
	for name, at := range map[string]string{sandbox.WorkspaceDir: "workspace", sandbox.TempDir: "tmp", sandbox.StateDir: "state"} {
		w.hello.Places[name] = filepath.Join(w.dir, at)
		if err := os.Mkdir(w.hello.Places[name], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) workspace(name string) string {
	return filepath.Join(w.hello.Places[sandbox.WorkspaceDir], name)
}

// inProcess starts the Hand in this process.
func (w *world) inProcess() *world {
	w.t.Helper()
	host, hand := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(context.Background(), hand, Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	}()
	w.dial(host)
	w.t.Cleanup(func() {
		_ = w.channel.Close()
		if err := <-ended; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	return w
}

func (w *world) dial(rw io.ReadWriteCloser) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, _, err := sandbox.Dial(ctx, rw, w.hello, sandbox.ChannelOptions{Serve: func(ctx context.Context, s *sandbox.Stream) error {
		if w.serve == nil {
			return errors.New("nothing is asked here")
		}
		return w.serve(ctx, s)
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.channel = c
}

var handProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hand-test-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "hand")
	cmd := exec.Command("go", "build", "-o", file, "../../cmd/awaken-hand")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := handProgram(); err == nil {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// asProcess starts the Hand as a process of its own, behind what args say.
func (w *world) asProcess(before ...string) *world {
	w.t.Helper()
	program, err := handProgram()
	if err != nil {
		w.t.Fatal(err)
	}
	args := append(before, program, "serve")
	w.cmd = exec.Command(args[0], args[1:]...)
	in, err := w.cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var said bytes.Buffer
	w.cmd.Stderr = &said
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if w.channel != nil {
			_ = w.channel.Close()
		}
		_ = in.Close()
		err := w.cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("the Hand: %v\n%s", err, said.String())
		}
	})
	w.dial(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	return w
}

// tool is a built tool, or the test is skipped.
func tool(t *testing.T, path string) (*plugins.Manifest, []byte) {
	t.Helper()
	dir := filepath.Join("..", "..", "bin", path)
	b, err := os.ReadFile(filepath.Join(dir, plugins.ManifestFile))
	if err != nil {
		needed := fmt.Sprintf("%s is not built: make guests", dir)
		if os.Getenv("CI") == "true" {
			t.Fatal(needed)
		}
		t.Skip(needed)
	}
	name := regexp.MustCompile(`path = "(.*)"`).FindSubmatch(b)
	if name == nil {
		t.Fatalf("%s names no module", dir)
	}
	code, err := os.ReadFile(filepath.Join(dir, string(name[1])))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(code)
	b = bytes.Replace(b, []byte(`sha256 = ""`), fmt.Appendf(nil, "sha256 = %q", hex.EncodeToString(sum[:])), 1)
	m, err := plugins.ParseManifest(filepath.Join(dir, plugins.ManifestFile), b)
	if err != nil {
		t.Fatal(err)
	}
	return m, code
}

// ask makes a request with a body and returns the body of the answer.
func (w *world) ask(method string, params, body, result any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return w.askWithin(ctx, method, params, body, result)
}

func (w *world) askWithin(ctx context.Context, method string, params, body, result any) ([]byte, error) {
	s, err := w.channel.Open(ctx, method, params)
	if err != nil {
		return nil, err
	}
	s.OnEvent(func(kind string, raw json.RawMessage) {
		var e sandbox.LogEvent
		if json.Unmarshal(raw, &e) == nil {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
		}
	})
	raw, is := body.([]byte)
	if !is {
		raw, _ = json.Marshal(body)
	}
	if _, err := s.Write(raw); err != nil {
		return nil, err
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(s)
	if err != nil {
		return nil, err
	}
	return out, s.Result(result)
}

// give hands a plugin over, with everything granted that its manifest asks for, and
// returns its key.
func (w *world) give(m *plugins.Manifest, code []byte, edit ...func(*sandbox.PluginImage)) string {
	w.t.Helper()
	i := sandbox.PluginImage{
		Key: m.ID, Manifest: m, Digest: "d", Effective: m.Capabilities, OutputMiB: 4, Tools: map[string]string{},
		Paths: map[string]plugins.PathGrant{},
	}
	for guest, mode := range m.Capabilities.Paths {
		i.Paths[guest] = plugins.PathGrant{Host: guest, Mode: mode}
	}
	for _, t := range m.Tools {
		i.Tools[t.ID] = m.ID + "__" + t.ID
	}
	for _, e := range edit {
		e(&i)
	}
	var known sandbox.PluginKnown
	if _, err := w.ask(sandbox.MethodPlugin, nil, i, &known); err != nil {
		w.t.Fatal(err)
	}
	if known.NeedModule {
		if _, err := w.ask(sandbox.MethodModule, sandbox.ModuleOffer{SHA256: m.Module.SHA256, Bytes: int64(len(code))}, code, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	return i.Key
}

func (w *world) params(plugin, tool string) sandbox.CallParams {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	return sandbox.CallParams{
		Plugin: plugin, Tool: tool, Run: "r", Step: w.steps, ID: "c", Name: batch.ToolID(plugin + "__" + tool), Attempt: 1, ToolDigest: "d",
	}
}

func (w *world) invoke(ctx context.Context, p sandbox.CallParams, args string) (*batch.Output, error) {
	raw, err := w.askWithin(ctx, sandbox.MethodCall, p, sandbox.CallBody{Arguments: []byte(args)}, nil)
	if err != nil {
		return nil, err
	}
	var out batch.Output
	return &out, json.Unmarshal(raw, &out)
}

// call runs a tool; an error of the Hand fails the test.
func (w *world) call(plugin, tool, args string) *batch.Output {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := w.invoke(ctx, w.params(plugin, tool), args)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}
