package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watched runs f beside a gate that watches its files, in virtual time.
func watched(t *testing.T, o Options, f func(t *testing.T, g *Gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := open(t, o)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.Watch(ctx)
		}()
		f(t, g)
		stop()
		<-done
	})
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	var l logs
	reg := prometheus.NewRegistry()
	o := options(t, `allow contains "one"`)
	o.Logger, o.Metrics = l.logger(), reg
	file := filepath.Join(o.Paths[0], "policy.rego")
	watched(t, o, func(t *testing.T, g *Gate) {
		first := g.Revision()
		time.Sleep(10 * time.Second)
		if g.Revision() != first || strings.Contains(l.String(), "policy replaced") {
			t.Error("it was replaced by itself")
		}
		write(t, file, "package awaken.policy\n\nallow contains \"two\"\n")
		time.Sleep(5 * time.Second)
		if got := said(t, g); got != "two" {
			t.Errorf("got %q", got)
		}

		// Broken: said once, however long it stays.
		write(t, file, "package awaken.policy\n\nalow contains \"three\"\n")
		time.Sleep(10 * time.Minute)
		st := g.Status()
		if got := said(t, g); got != "two" || st.Healthy() || !strings.Contains(st.Problem, "rule alow") || st.Since == nil {
			t.Errorf("got %q, status %+v", got, st)
		}
		if n := strings.Count(l.String(), "policy is not replaced"); n != 1 {
			t.Errorf("it was said %d times", n)
		}
		if got := counter(t, reg, "awaken_policy_reloads_total", "failed"); got != 1 {
			t.Errorf("%v reloads failed", got)
		}

		// Gone, and as it was before: nothing is replaced, and all is well.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if st := g.Status(); said(t, g) != "two" || !strings.Contains(st.Problem, "has no .rego") {
			t.Errorf("status %+v", st)
		}
		write(t, file, "package awaken.policy\n\nallow contains \"two\"\n")
		time.Sleep(5 * time.Second)
		if st := g.Status(); !st.Healthy() || !strings.Contains(l.String(), "policy is in order again") {
			t.Errorf("status %+v", st)
		}

		// A change that keeps name, size and times is found a little later.
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, "package awaken.policy\n\nallow contains \"six\"\n")
		if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got := said(t, g); got != "six" {
			t.Errorf("got %q", got)
		}
		if got := counter(t, reg, "awaken_policy_reloads_total", "ok"); got != 3 {
			t.Errorf("%v reloads went well", got)
		}
	})
}

// counter reads the value of a metric whose first label has a value.
func counter(t testing.TB, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}

// A file beside the policy that is no part of it may change all the time, such as a log.
func TestOtherFilesNeedNoRest(t *testing.T) {
	o := options(t, `allow contains "one"`)
	dir := o.Paths[0]
	watched(t, o, func(t *testing.T, g *Gate) {
		write(t, filepath.Join(dir, "policy.rego"), "package awaken.policy\n\nallow contains \"two\"\n")
		for i := range 100 {
			write(t, filepath.Join(dir, "decisions.jsonl"), strings.Repeat("x\n", i))
			write(t, filepath.Join(dir, fmt.Sprintf("decisions.jsonl.%06d", i)), "x\n")
			time.Sleep(50 * time.Millisecond)
		}
		if got := said(t, g); got != "two" {
			t.Errorf("got %q, status %+v", got, g.Status())
		}
		// One that looks like policy is still noticed.
		write(t, filepath.Join(dir, "more.rego.txt"), "package awaken.policy\n")
		time.Sleep(5 * time.Second)
		if st := g.Status(); !st.Healthy() {
			t.Errorf("status %+v", st)
		}
	})
}

// Files that are still being written are not put in force, whatever they say meanwhile.
func TestHalfWritten(t *testing.T) {
	o := options(t, `allow contains "one"`)
	dir := o.Paths[0]
	watched(t, o, func(t *testing.T, g *Gate) {
		first := g.Revision()
		write(t, filepath.Join(dir, "policy.rego"), "package awaken.policy\n\nallow contains \"half\"\n")
		for i := range 60 {
			write(t, filepath.Join(dir, "more.rego"), fmt.Sprintf("package more\n\nx := %d\n", i))
			time.Sleep(100 * time.Millisecond)
			if g.Revision() != first {
				t.Fatal("a policy that is being written was put in force")
			}
		}
		write(t, filepath.Join(dir, "policy.rego"), "package awaken.policy\n\nallow contains \"whole\"\n")
		time.Sleep(5 * time.Second)
		if got := said(t, g); got != "whole" {
			t.Errorf("got %q", got)
		}
	})
}

// A folder that is swapped by a link, as orchestrators mount configuration.
func TestWatchFollowsLinks(t *testing.T) {
	o := options(t, "")
	dir := t.TempDir()
	for _, v := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, v), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, v, "p.rego"), "package awaken.policy\n\nallow contains \""+v+"\"\n")
	}
	link := filepath.Join(dir, "now")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	o.Paths = []string{link}
	watched(t, o, func(t *testing.T, g *Gate) {
		if err := errors.Join(os.Symlink("b", link+".new"), os.Rename(link+".new", link)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := said(t, g); got != "b" {
			t.Errorf("got %q", got)
		}
	})
}

func TestWatchBundleOnDisk(t *testing.T) {
	o := options(t, "")
	file := filepath.Join(t.TempDir(), "acme.tar.gz")
	write(t, file, string(archive(t, policyFiles("v1"))))
	o.Paths = []string{file}
	watched(t, o, func(t *testing.T, g *Gate) {
		write(t, file, string(archive(t, policyFiles("v2"))))
		time.Sleep(5 * time.Second)
		if got := said(t, g); got != "v2 v2" {
			t.Errorf("got %q", got)
		}
		write(t, file, "no bundle")
		time.Sleep(5 * time.Second)
		if st := g.Status(); said(t, g) != "v2 v2" || st.Healthy() || !strings.Contains(st.Sources[0].Problem, "it is not compressed") {
			t.Errorf("got %q, status %+v", said(t, g), st)
		}
	})
}

func TestNotWatched(t *testing.T) {
	o := options(t, `allow contains "one"`)
	o.WatchEvery = -1
	watched(t, o, func(t *testing.T, g *Gate) {
		write(t, filepath.Join(o.Paths[0], "policy.rego"), "package awaken.policy\n\nallow contains \"two\"\n")
		time.Sleep(time.Hour)
		if got := said(t, g); got != "one" {
			t.Errorf("got %q", got)
		}
	})
}

func TestTestOnReload(t *testing.T) {
	o := options(t, `allow contains "one" if input.call.arguments.n == 1`)
	test := filepath.Join(o.Paths[0], "policy_test.rego")
	file := filepath.Join(o.Paths[0], "policy.rego")
	write(t, test, "package t\n\nimport data.awaken.policy\n\ntest_one if \"one\" in policy.allow with input as {\"call\": {\"arguments\": {\"n\": 1}}}\n")
	o.TestOnReload = true
	g := open(t, o)
	if !g.Status().Tested {
		t.Error("not tested")
	}
	first := g.Revision()
	write(t, file, "package awaken.policy\n\nallow contains \"one\" if input.call.arguments.n == 2\n")
	err := g.Reload(context.Background())
	if err == nil || !strings.Contains(err.Error(), "policy_test.rego:5: test t.test_one fails") || g.Revision() != first {
		t.Errorf("got %v", err)
	}
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "test t.test_one fails") {
		t.Errorf("a start says %v", err)
	}
	write(t, test, "package t\n\ntest_loop if count(numbers.range(1, 100000000)) > 0\n")
	ctx, stop := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer stop()
	began := time.Now()
	if err := g.Reload(ctx); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("a test without end: %v after %v", err, time.Since(began))
	}
	o.TestOnReload = false
	write(t, test, "no rego")
	if err := open(t, o).Reload(context.Background()); err != nil {
		t.Errorf("tests that nobody asked for: %v", err)
	}
}

// Polling asks again and again, sooner after a failure, and puts a new version in force.
func TestPoll(t *testing.T) {
	s := newBundleServer(t)
	s.serves(archive(t, policyFiles("v1")), `"1"`)
	o := fromServer(t, s)
	o.Bundles[0].Poll = 20 * time.Millisecond
	var l logs
	o.Logger = l.logger()
	g := open(t, o)
	if err := g.Keep(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Watch(ctx)
	}()
	until := func(what string, f func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s; log:\n%s", what, l.String())
			}
		}
	}
	until("never asked again", func() bool { return s.same.Load() > 2 })
	s.fails(500)
	until("the failure is not seen", func() bool { return !g.Status().Healthy() })
	s.serves(archive(t, policyFiles("v2")), `"2"`)
	until("v2 is not put in force", func() bool { return said(t, g) == "v2 v2" && g.Status().Healthy() })
	st, pid, err := ReadStatus(o.StateDir)
	if err != nil || pid != os.Getpid() {
		t.Fatalf("process %d, %v", pid, err)
	}
	until("the status is not written", func() bool {
		st, _, err = ReadStatus(o.StateDir)
		return err == nil && st.Healthy() && st.Sources[0].Revision == "v2"
	})
	stop()
	<-done
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if st, _, err := ReadStatus(o.StateDir); st != nil || err != nil {
		t.Errorf("after Close: %+v, %v", st, err)
	}
	if n := strings.Count(l.String(), "policy bundle cannot be checked"); n != 1 {
		t.Errorf("the failure was said %d times", n)
	}
	s.fails(500)
	if got := said(t, open(t, o)); got != "v2 v2" {
		t.Errorf("the kept copy is %q", got)
	}
}

func TestPause(t *testing.T) {
	for _, c := range []struct {
		poll     time.Duration
		failures int
		chance   float64
		want     time.Duration
	}{
		{time.Minute, 0, 0.5, time.Minute},
		{time.Minute, 0, 0, 54 * time.Second},
		{time.Minute, 0, 1, 66 * time.Second},
		{time.Minute, 1, 0.5, 5 * time.Second},
		{time.Minute, 3, 0.5, 20 * time.Second},
		{time.Minute, 50, 0.5, time.Minute},
		{time.Second, 1, 0.5, time.Second},
	} {
		if got := pause(c.poll, c.failures, c.chance); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestStatusFile(t *testing.T) {
	o := options(t, allowAll)
	o.StateDir = filepath.Join(t.TempDir(), "deep", "state")
	if st, _, err := ReadStatus(o.StateDir); st != nil || err != nil {
		t.Errorf("nothing there: %+v, %v", st, err)
	}
	g := open(t, o)
	if err := g.Keep(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]os.FileMode{".": 0o700, statusName: 0o600, lockName: 0o600} {
		info, err := os.Stat(filepath.Join(o.StateDir, file))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := open(t, o).Keep(); err == nil || !strings.Contains(err.Error(), "is held by another process") {
		t.Errorf("a second one: %v", err)
	}
	want, _ := json.Marshal(g.Status())
	st, _, err := ReadStatus(o.StateDir)
	if got, _ := json.Marshal(st); err != nil || string(got) != string(want) {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	write(t, filepath.Join(o.StateDir, statusName), "{")
	if _, _, err := ReadStatus(o.StateDir); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("damaged: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), func() Options { o.Metrics = prometheus.NewRegistry(); return o }()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "another gate has them there already") {
		t.Errorf("metrics twice: %v", err)
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	o := options(t, "allow contains \"a\" if input.call.arguments.n == 1")
	reg := prometheus.NewRegistry()
	o.Metrics = reg
	g := open(t, o)
	for _, args := range []string{`{"n":1}`, `{"n":2}`, `{"n":2}`} {
		decide(t, g, query("read", args))
	}
	if a, b := counter(t, reg, "awaken_policy_decisions_total", "allow"), counter(t, reg, "awaken_policy_decisions_total", "block"); a != 1 || b != 2 {
		t.Errorf("%v allowed, %v blocked", a, b)
	}
	if v := counter(t, reg, "awaken_policy_revision_info", g.Revision()); v != 1 {
		t.Errorf("revision_info is %v", v)
	}
}

// The whole input is bounded, not its arguments alone.
func TestInputIsBounded(t *testing.T) {
	g := open(t, options(t, allowAll))
	q := query("read", `{}`)
	q.Run.Labels = map[string]string{"team": strings.Repeat("x", 2<<20)}
	if d := decide(t, g, q); d.Outcome != "block" || codes(d) != ReasonInvalidInput || !strings.Contains(d.Reasons[0].Message, "besides its arguments") || d.Input != nil {
		t.Errorf("got %s, %+v", d.Outcome, d.Reasons)
	}
}
