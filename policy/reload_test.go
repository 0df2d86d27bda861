package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

func TestOpenRefusesBadOptions(t *testing.T) {
	good := options(t, allowAll)
	for name, spoil := range map[string]func(*Options){
		"no tools":          func(o *Options) { o.Tools = nil },
		"negative deadline": func(o *Options) { o.Deadline = -time.Second },
		"negative limit":    func(o *Options) { o.MaxArgumentBytes = -1 },
	} {
		o := good
		spoil(&o)
		if g, err := Open(context.Background(), o); err == nil {
			t.Errorf("%s: opened %s", name, g.Revision())
		}
	}
	o := good
	o.Deadline = 0
	if g := open(t, o); g.o.Deadline != DefaultDeadline || g.o.MaxArgumentBytes != DefaultMaxArgumentBytes {
		t.Errorf("got defaults %v and %d", g.o.Deadline, g.o.MaxArgumentBytes)
	}
}

func TestReloadKeepsTheLastGoodSet(t *testing.T) {
	o := options(t, allowAll)
	file := filepath.Join(o.Paths[0], "policy.rego")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := open(t, o)
	first := g.Revision()
	write("package awaken.policy\nallow contains")
	var ps Problems
	if err := g.Reload(context.Background()); !errors.As(err, &ps) {
		t.Fatalf("got %v", err)
	}
	if d := decide(t, g, query("read", `{}`)); d.Outcome != batch.OutcomeAllow || g.Revision() != first {
		t.Errorf("after a bad edit: %s under %s", d.Outcome, g.Revision())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(context.Background()); err == nil || g.Revision() != first {
		t.Errorf("after the policy was removed: %v", err)
	}
	write("package awaken.policy\nblock contains \"x\"")
	if err := g.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if d := decide(t, g, query("read", `{}`)); d.Outcome != batch.OutcomeBlock || g.Revision() == first {
		t.Errorf("after a good edit: %s under %s", d.Outcome, g.Revision())
	}
}

// Tools are those in force when the call is decided.
func TestToolsAreSwapped(t *testing.T) {
	o := options(t, `allow contains input.tool.version`)
	var current atomic.Pointer[plugins.Snapshot]
	current.Store(snapshot(t, testPlugin()))
	o.Tools = current.Load
	g := open(t, o)
	version := func() string { return decide(t, g, query("read", `{}`)).Reasons[0].Message }
	if v := version(); v != "1.2.0" {
		t.Errorf("got %s", v)
	}
	p := testPlugin()
	p.Manifest.Version = "1.3.0" // with the same digest, as after another grant
	current.Store(snapshot(t, p))
	if v := version(); v != "1.3.0" {
		t.Errorf("got %s", v)
	}
	p = testPlugin()
	p.Digest = "another"
	current.Store(snapshot(t, p))
	if d := decide(t, g, query("read", `{}`)); codes(d) != ReasonToolChanged {
		t.Errorf("got %+v", d.Reasons)
	}
}

// Decisions while the policy is replaced, by good and broken ones: each is made by
// one whole set, which its revision names.
func TestDecideWhileReloading(t *testing.T) {
	o := options(t, "")
	file := filepath.Join(o.Paths[0], "policy.rego")
	texts := []string{
		"package awaken.policy\nallow contains \"even\"\nblock contains \"even\" if input.call.arguments.n == 1",
		"package awaken.policy\nallow contains \"odd\"\nblock contains \"odd\" if input.call.arguments.n == 1",
	}
	revisions := map[string]string{}
	for i, text := range texts {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Check(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		revisions[r.Revision] = []string{"even", "odd"}[i]
	}
	g := open(t, o)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var decided atomic.Int64
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				args, want := `{"n":0}`, batch.OutcomeAllow
				if (i+w)%2 == 1 {
					args, want = `{"n":1}`, batch.OutcomeBlock
				}
				d, err := g.Decide(context.Background(), query([]string{"read", "save"}[i%2], args))
				if err != nil || d.Outcome != want || d.Reasons[0].Message != revisions[d.PolicyRevision] {
					t.Errorf("got %+v under %s, %v", d, revisions[d.PolicyRevision], err)
					return
				}
				decided.Add(1)
			}
		}()
	}
	broken := 0
	for i := range 30 {
		text := texts[i%2]
		if i%3 == 2 {
			text = strings.Replace(text, "contains", "contain", 1)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if g.Reload(context.Background()) != nil {
			broken++
		}
	}
	close(stop)
	wg.Wait()
	if broken != 10 || decided.Load() == 0 {
		t.Errorf("%d reloads were refused, %d calls decided", broken, decided.Load())
	}
}
