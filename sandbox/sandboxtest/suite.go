package sandboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Suite checks a tier on its real engine: the contract of sandbox.Tier and
// sandbox.Instance, and the Hand inside of it.
func Suite(t *testing.T, s Setup) {
	t.Helper()
	name := s.Tier.Name()
	if !slices.Contains(sandbox.Tiers, name) {
		t.Fatalf("the tier is called %q; names are %v", name, sandbox.Tiers)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Tier.Check(ctx); err != nil {
		t.Fatalf("Check: %v", err)
	}
	t.Run("life", s.life)
	t.Run("failed start leaves nothing", s.failedStart)
	t.Run("closing the channel ends it", s.closedChannel)
	t.Run("a killed Hand", s.killedHand)
	t.Run("stop ends everything inside", s.stopEndsAll)
	t.Run("leftovers", s.leftovers)
	t.Run("two at once", s.twoAtOnce)
	t.Run("properties", s.properties)
	t.Run("calls", s.callsOf)
	t.Run("commands", s.commandsOf)
	if slices.Contains(s.Enforced, sandbox.PropertyMemory) {
		t.Run("out of memory", s.outOfMemory)
	}
	t.Run("files", s.filesOf)
	t.Run("ledger", s.ledgerOf)
	if a, ok := s.Tier.(sandbox.Attacher); ok {
		t.Run("attach", func(t *testing.T) { s.attach(t, a) })
	}
}

// found lists what a tier has of a host.
func (s Setup) found(t testing.TB, host string) []sandbox.Leftover {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := s.Tier.Leftovers(ctx, host)
	if err != nil {
		t.Fatalf("Leftovers: %v", err)
	}
	return list
}

func (s Setup) life(t *testing.T) {
	host := "host-" + newNonce()
	b := s.openFor(t, host)
	if b.welcome.Hand == "" || b.welcome.PID <= 0 {
		t.Errorf("the Hand greets with version %q, process %d", b.welcome.Hand, b.welcome.PID)
	}
	select {
	case <-b.inst.Done():
		t.Fatal("it has ended before it was stopped")
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.inst.Ended(ctx); err != nil {
		t.Errorf("it runs, and Ended says %v", err)
	}
	for range 2 { // the second time is harmless
		if err := b.inst.Stop(ctx); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	_ = b.waitDone() // nobody says why of what was stopped
	if left := s.found(t, host); len(left) > 0 {
		t.Errorf("after Stop there is %v", left)
	}
	for _, dir := range []string{b.spec.Workspace, b.spec.State} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("Stop took a folder of the host's: %v", err)
		}
	}
}

func (s Setup) failedStart(t *testing.T) {
	refused := func(t *testing.T, ctx context.Context, change func(*sandbox.Spec)) {
		t.Helper()
		host := "host-" + newNonce()
		spec, nonce := s.spec(t, host)
		change(spec)
		inst, err := s.Tier.Start(ctx, spec)
		if err == nil {
			stop, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = inst.Stop(stop)
			t.Fatal("it was started")
		}
		var u *sandbox.UnavailableError
		if !errors.As(err, &u) || u.Tier != s.Tier.Name() || u.Reason == "" {
			t.Errorf("Start failed with %T, want an *UnavailableError with tier and reason: %v", err, err)
		}
		if left := s.found(t, host); len(left) > 0 {
			t.Errorf("it left %v", left)
		}
		if left := runningWith(t, nonce); len(left) > 0 {
			t.Errorf("it left processes: %v", left)
		}
	}
	t.Run("ended context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		refused(t, ctx, func(*sandbox.Spec) {})
	})
	if c, ok := s.Tier.(sandbox.Carrier); !ok || !c.Carries() {
		t.Run("no Hand", func(t *testing.T) {
			refused(t, t.Context(), func(spec *sandbox.Spec) { spec.Hand = filepath.Join(t.TempDir(), "none") })
		})
		t.Run("no workspace", func(t *testing.T) {
			refused(t, t.Context(), func(spec *sandbox.Spec) { spec.Workspace = filepath.Join(t.TempDir(), "none") })
		})
	}
}

func (s Setup) closedChannel(t *testing.T) {
	b := s.open(t)
	if err := b.inst.Channel().Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	err := b.waitDone()
	var e *sandbox.EndedError
	if !errors.As(err, &e) || e.Tier != s.Tier.Name() {
		t.Errorf("Ended says %T: %v", err, err)
	}
}

// Whoever kills the Hand ends everything inside, and whoever waits for a call hears of
// it at once.
func (s Setup) killedHand(t *testing.T) {
	b := s.open(t)
	h := b.hold(0)
	begun := time.Now()
	kill(t, b.handProcess())
	<-h.done
	if !errors.Is(h.err, sandbox.ErrLost) || errors.Is(h.err, sandbox.ErrNotSent) {
		t.Errorf("the call in the middle gave %+v, %v; want an error that is ErrLost", h.ran, h.err)
	}
	err := b.waitDone()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v to hear of it", took)
	}
	if r := sandbox.ReasonOf(err); r != sandbox.ReasonKilled && r != sandbox.ReasonExited {
		t.Errorf("the reason is %q: %v", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.inst.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if left := running(t, h.mark); len(left) > 0 {
		t.Errorf("after Stop these run: %v", left)
	}
}

func (s Setup) stopEndsAll(t *testing.T) {
	b := s.open(t)
	h := b.hold(0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.inst.Stop(ctx); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if left := running(t, h.mark); len(left) > 0 {
		t.Errorf("Stop returned, and these run: %v", left)
	}
	<-h.done
	if h.err == nil {
		t.Errorf("the call ended well: %+v", h.ran)
	}
}

func (s Setup) leftovers(t *testing.T) {
	host, other := "host-"+newNonce(), "host-"+newNonce()
	mine, foreign := s.openFor(t, host), s.openFor(t, other)
	list := s.found(t, host)
	if len(list) != 1 {
		t.Fatalf("of host %s there is %v, want one", host, list)
	}
	l := list[0]
	want := mine.spec.Labels
	if l.Labels.Session == "" { // a pool's gets one after it was started
		want.Session = ""
	}
	if l.Labels != want || l.Tier != s.Tier.Name() || l.ID == "" {
		t.Errorf("found %+v, labels are %+v", l, mine.spec.Labels)
	}
	if none := s.found(t, "host-"+newNonce()); len(none) != 0 {
		t.Errorf("of a host that never was there is %v", none)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Tier.Remove(ctx, l); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if left := runningWith(t, mine.nonce); len(left) > 0 {
		t.Errorf("Remove returned, and these run: %v", left)
	}
	_ = mine.waitDone() // what was removed has ended; why is not asked
	if err := s.Tier.Remove(ctx, l); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
	if left := s.found(t, host); len(left) != 0 {
		t.Errorf("after Remove there is %v", left)
	}
	if got := foreign.shell("echo here").Stdout; got != "here\n" {
		t.Errorf("another host's boundary answers %q", got)
	}
}

func (s Setup) twoAtOnce(t *testing.T) {
	a, b := s.open(t), s.open(t)
	a.shell("echo mine > only-here.txt")
	if r := b.shell("ls -a"); r.ExitCode != 0 || r.Stdout != ".\n..\n" {
		t.Errorf("in the other workspace there is %q", r.Stdout)
	}
	if !slices.Contains(s.Enforced, sandbox.PropertyProcesses) {
		return
	}
	h := a.hold(0)
	if r := b.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); containsText(r.Stdout, h.mark) {
		t.Error("it sees the other's processes")
	}
}

// What is said to be enforced is, and nothing is said of what is not.
func (s Setup) properties(t *testing.T) {
	found := s.open(t).properties()
	for _, p := range sandbox.PropertyNames {
		f := found[p]
		t.Logf("%-10s %-12s %-9s %s", p, f.State, f.Level, f.Detail)
		if want := slices.Contains(s.Enforced, p); want != (f.State == sandbox.Enforced) {
			t.Errorf("%s is %s (%s), enforced was expected: %t", p, f.State, f.Detail, want)
		}
		if f.State != sandbox.Enforced && f.Remedy == "" && f.State != sandbox.Unknown {
			t.Errorf("%s is %s, without a remedy", p, f.State)
		}
	}
	network := found[sandbox.PropertyNetwork]
	if want := s.Spec.Network; slices.Contains(s.Enforced, sandbox.PropertyNetwork) && network.Level != string(sandbox.NetworkNone) && want != sandbox.NetworkHost {
		t.Errorf("the network in force is %q", network.Level)
	}
}

func (s Setup) attach(t *testing.T, a sandbox.Attacher) {
	host := "host-" + newNonce()
	b := s.openFor(t, host)
	p := load(t, "guests", "exec")
	params := b.params(p, "run")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.callAs(ctx, p, params, command{Argv: []string{"sh", "-c", "echo done"}}); err != nil {
		t.Fatal(err)
	}
	list := s.found(t, host)
	if len(list) != 1 {
		t.Fatalf("there is %v", list)
	}
	// As after the death of a host: the first Hand has nobody to speak to.
	if err := b.inst.Channel().Close(); err != nil {
		t.Error(err)
	}
	inst, err := a.Attach(ctx, list[0])
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer func() {
		if err := inst.Stop(ctx); err != nil {
			t.Errorf("Stop of what was attached: %v", err)
		}
	}()
	ch, _, err := sandbox.Dial(ctx, inst.Channel(), b.hello(), sandbox.ChannelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	r := readLedger(t, ch, params.Operation())
	if !r.Done || r.Attempt != 1 || r.Output == nil {
		t.Errorf("the ledger says %+v", r)
	}
}
