package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// versioned writes a policy of two modules that must agree on a version.
func versioned(t *testing.T, dir string, version int, rule string) {
	t.Helper()
	for name, text := range map[string]string{
		"a.rego": fmt.Sprintf("package va\n\nversion := %d\n", version),
		"b.rego": fmt.Sprintf("package vb\n\nversion := %d\n", version),
		"p.rego": "package awaken.policy\n\n" + rule,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const agree = `allow contains sprintf("v%d", [data.va.version]) if data.va.version == data.vb.version
block contains "a mix" if data.va.version != data.vb.version
`

// gated is a host that is decided by the policy in dir.
func gated(t *testing.T, dir string) (*host.Host, *policy.Gate, *parts) {
	t.Helper()
	p := &parts{}
	registry := &plugins.Registry{}
	gate, err := policy.Open(t.Context(), policy.Options{Paths: []string{dir}, Tools: registry.Load, Deadline: 1 << 36})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, p, storetest.NewMemory(), func(o *host.Options) {
		o.Gate = gate
		registry.Swap(o.Registry.Load())
	})
	return h, gate, p
}

// TestReloadUnderLoad: 64 runs call while the policy is replaced 100 times, every third
// time by a broken one. Each call is decided by one whole policy, which its record names;
// none is lost, and none is let through by a policy that was refused.
func TestReloadUnderLoad(t *testing.T) {
	dir := t.TempDir()
	versioned(t, dir, 0, agree)
	h, gate, p := gated(t, dir)
	versions := map[string]string{gate.Revision(): "v0"}

	stop := make(chan struct{})
	var wg sync.WaitGroup
	steps := make([]int, 64)
	for i := range steps {
		wg.Go(func() {
			run := batch.RunID(fmt.Sprintf("run-%d", i))
			for {
				m, err := host.ParseMessage([]byte(`{"calls":[{"id":"a","tool":"p__t"},{"id":"b","tool":"p__t"}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				r, err := h.Run(context.Background(), host.Request{Run: run, Message: m})
				if err != nil || r.Phase != batch.BatchFinalized || len(r.Results) != 2 {
					t.Errorf("%s: %+v, %v", run, r, err)
					return
				}
				steps[i]++
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Millisecond): // leave some of the machine to the reloads
				}
			}
		})
	}
	broken := 0
	for n := 1; n <= 100; n++ {
		rule := agree
		switch n % 6 {
		case 2:
			rule = "allow contains \"broken\"\nalow contains 1\n" // another rule of it would allow
		case 5:
			rule = "allow contains \"broken\"\nx := data.va.version +\n"
		}
		versioned(t, dir, n, rule)
		switch err := gate.Reload(t.Context()); {
		case err == nil:
			versions[gate.Revision()] = fmt.Sprintf("v%d", n)
		case rule == agree:
			t.Fatal(err)
		default:
			broken++
		}
	}
	close(stop)
	wg.Wait()

	calls, used := 0, map[string]bool{}
	for i, n := range steps {
		v, err := h.Show(t.Context(), batch.RunID(fmt.Sprintf("run-%d", i)))
		if err != nil || len(v.Batches) != n {
			t.Fatalf("run %d has %d batches of %d, %v", i, len(v.Batches), n, err)
		}
		for _, b := range v.Batches {
			for _, c := range b.Calls {
				if len(c.Decisions) != 1 || c.Decisions[0].Outcome != batch.OutcomeAllow {
					t.Fatalf("call %s: %+v", c.Operation, c.Decisions)
				}
				d := c.Decisions[0]
				if want := versions[d.PolicyRevision]; want == "" || d.Reasons[0].Message != want {
					t.Errorf("call %s was decided by %q under the revision of %q", c.Operation, d.Reasons[0].Message, want)
				}
				used[d.PolicyRevision] = true
				calls++
			}
		}
	}
	if calls != len(p.ran) || broken != 33 || len(used) < 3 {
		t.Errorf("%d calls, %d executed, %d policies refused, %d in use", calls, len(p.ran), broken, len(used))
	}
}

// TestReloadBetweenParkingAndApproval: the record keeps the revision that parked a call,
// and the one in force when it comes back decides.
func TestReloadBetweenParkingAndApproval(t *testing.T) {
	const asks = "require_confirmation contains {\"prompt\": \"sure?\"}\n"
	for name, c := range map[string]struct {
		rule string
		ran  int
	}{
		"allows": {asks, 1},
		"blocks": {asks + "block contains \"not any more\"\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			versioned(t, dir, 1, asks)
			h, gate, p := gated(t, dir)
			first := gate.Revision()
			r := submit(t, h, "r")
			if len(r.Tickets) != 1 {
				t.Fatalf("got %+v", r)
			}
			versioned(t, dir, 2, c.rule)
			if err := gate.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := gate.Revision()
			if _, err := h.Decide(t.Context(), r.Tickets[0].Ticket, batch.TicketAnswer{Approve: true, By: "bob"}); err != nil {
				t.Fatal(err)
			}
			v, err := h.Show(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			ds := v.Batches[0].Calls[0].Decisions
			if len(ds) != 2 || ds[0].PolicyRevision != first || ds[1].PolicyRevision != second || first == second || len(p.ran) != c.ran {
				var all []string
				for _, d := range ds {
					all = append(all, fmt.Sprintf("%s under %s", d.Outcome, d.PolicyRevision))
				}
				t.Errorf("%s; executed %d times; revisions %s and %s", strings.Join(all, ", "), len(p.ran), first, second)
			}
		})
	}
}
