package policy

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

const testDigest = "4d7f00000000000000000000000000000000000000000000000000000000beef"

var testNow = time.Date(2025, 6, 30, 14, 30, 0, 123456789, time.UTC)

// testPlugin is a verified plugin as the library gives it.
func testPlugin() *plugins.Plugin {
	return &plugins.Plugin{
		Manifest: &plugins.Manifest{
			ID: "notes", Version: "1.2.0",
			Tools: []plugins.ToolSpec{
				{ID: "read", Target: batch.TargetBrain, Annotations: map[string]any{"read_only": true}},
				{ID: "save", Target: batch.TargetBrain, Annotations: map[string]any{"read_only": false, "weight": 1.5}},
				{ID: "wipe", Target: batch.TargetSandbox, Annotations: map[string]any{"destructive": true}},
				{ID: "mute", Target: batch.TargetBrain},
			},
		},
		Dir: "plugins/notes", Digest: testDigest,
		TrustedBy: plugins.TrustedBySignature, Signer: "A1B2C3D4E5F60718",
		Effective: plugins.Capabilities{
			Hosts:     []string{"api.example.com:443", "db.example.com:5432"},
			Paths:     map[string]string{"/workspace": "rw", "/data": "ro"},
			Commands:  []string{"git", "make"},
			MemoryMiB: 64, Timeout: 5 * time.Second,
		},
	}
}

func snapshot(t testing.TB, ps ...*plugins.Plugin) *plugins.Snapshot {
	t.Helper()
	s, err := plugins.NewSnapshot(ps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// folder writes files and returns where.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// options for a policy of one module; text without a package gets awaken.policy.
func options(t testing.TB, rego string) Options {
	t.Helper()
	if !strings.Contains(rego, "package ") {
		rego = "package awaken.policy\n" + rego
	}
	snap := snapshot(t, testPlugin())
	return Options{
		Paths: []string{folder(t, map[string]string{"policy.rego": rego})},
		Tools: func() *plugins.Snapshot { return snap },
		// Wide, so that only tests about the deadline meet it.
		Deadline: 20 * time.Second,
	}
}

func open(t testing.TB, o Options) *Gate {
	t.Helper()
	g, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func query(tool, args string) *batch.Query {
	return &batch.Query{
		Call: &batch.Call{Run: "r1", Step: 3, Index: 1, ID: "toolu_1", Tool: batch.ToolID("notes__" + tool), Arguments: []byte(args)},
		Tool: batch.Descriptor{ID: batch.ToolID("notes__" + tool), Plugin: "notes", Digest: testDigest},
		Run: &batch.Run{
			ID: "r1", Principal: "alice", Agent: "helper", Labels: map[string]string{"team": "blue"},
			Counts: map[batch.ToolID]int{"notes__save": 2},
		},
		Now: testNow,
		Recent: func(_ context.Context, windows ...time.Duration) ([]map[batch.ToolID]int, error) {
			return make([]map[batch.ToolID]int, len(windows)), nil
		},
	}
}

func decide(t testing.TB, g *Gate, q *batch.Query) *batch.Decision {
	t.Helper()
	before := g.Revision()
	d, err := g.Decide(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	// A gate that watches its sources may take up another set meanwhile.
	if after := g.Revision(); d.PolicyRevision != before && d.PolicyRevision != after {
		t.Errorf("decision of revision %s, want %s or %s", d.PolicyRevision, before, after)
	}
	if len(d.Reasons) == 0 {
		t.Error("a decision without a reason")
	}
	return d
}

// codes joins the reason codes in order.
func codes(d *batch.Decision) string {
	var cs []string
	for _, r := range d.Reasons {
		cs = append(cs, r.Code)
	}
	return strings.Join(cs, " ")
}

func approval(kind batch.TicketKind, by ...string) *batch.Approval {
	return &batch.Approval{Kind: kind, Ticket: "t1", By: by, At: testNow, Requested: testNow.Add(-time.Hour)}
}

// logs collects what a gate says.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func tools(s *plugins.Snapshot) func() *plugins.Snapshot {
	return func() *plugins.Snapshot { return s }
}
