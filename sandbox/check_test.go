package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// checked is a tier whose Hand is a goroutine that answers MethodProbe.
type checked struct {
	refused, start, stop error
	inspect              error
	silent               bool // the Hand ends before it says welcome
	inside, outside      sandbox.Properties

	spec *sandbox.Spec // of the Instance that was started
	live int
}

func (c *checked) Name() string                { return sandbox.TierNamespace }
func (c *checked) Check(context.Context) error { return c.refused }
func (c *checked) Leftovers(context.Context, string) ([]sandbox.Leftover, error) {
	return nil, errors.New("not asked for")
}
func (c *checked) Remove(context.Context, sandbox.Leftover) error { return errors.New("not asked for") }

func (c *checked) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	if c.start != nil {
		return nil, c.start
	}
	for _, dir := range []string{spec.Workspace, spec.State} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, err
		}
	}
	c.spec = spec
	c.live++
	host, hand := net.Pipe()
	i := &checkedInstance{tier: c, conn: host, done: make(chan struct{})}
	go func() {
		defer close(i.done)
		defer hand.Close()
		if c.silent {
			return
		}
		ch, _, err := sandbox.Accept(context.WithoutCancel(ctx), hand, sandbox.Welcome{Hand: "test"}, sandbox.ChannelOptions{
			Serve: func(_ context.Context, s *sandbox.Stream) error {
				if s.Method() != sandbox.MethodProbe {
					return &sandbox.RemoteError{Kind: sandbox.RemoteRefused, Msg: s.Method()}
				}
				return s.End(c.inside)
			},
		})
		if err == nil {
			<-ch.Done()
		}
	}()
	return i, nil
}

type checkedInstance struct {
	tier *checked
	conn net.Conn
	done chan struct{}
}

func (i *checkedInstance) Channel() io.ReadWriteCloser { return i.conn }
func (i *checkedInstance) Inspect(context.Context) (*sandbox.Effective, error) {
	if i.tier.inspect != nil {
		return nil, i.tier.inspect
	}
	return &sandbox.Effective{Tier: i.tier.Name(), ID: "1", Properties: i.tier.outside}, nil
}
func (i *checkedInstance) Done() <-chan struct{} { return i.done }
func (i *checkedInstance) Ended(context.Context) error {
	return &sandbox.EndedError{Tier: i.tier.Name(), Reason: sandbox.ReasonMemory}
}
func (i *checkedInstance) Stop(context.Context) error {
	i.tier.live--
	_ = i.conn.Close()
	<-i.done
	return i.tier.stop
}

func TestCheck(t *testing.T) {
	enforced := func(names ...sandbox.Property) sandbox.Properties {
		p := sandbox.Properties{}
		for _, n := range names {
			p[n] = sandbox.Finding{State: sandbox.Enforced}
		}
		return p
	}
	down := &sandbox.UnavailableError{Tier: sandbox.TierNamespace, Reason: sandbox.ReasonTool, What: "bwrap is not there"}
	for _, c := range []struct {
		name   string
		tier   checked
		failed string // Report.Err
		err    string
		unmet  string // of user = "unprivileged", memory = "limited"
	}{
		{name: "both sides", tier: checked{inside: enforced(sandbox.PropertyUser), outside: enforced(sandbox.PropertyMemory)}},
		{name: "one side", tier: checked{inside: enforced(sandbox.PropertyUser)}, unmet: `memory = "limited" is demanded and unknown`},
		{name: "sides that differ", unmet: `user = "unprivileged" is demanded and not enforced (uid 0)`, tier: checked{
			inside:  sandbox.Properties{sandbox.PropertyUser: {State: sandbox.NotEnforced, Detail: "uid 0"}},
			outside: enforced(sandbox.PropertyUser, sandbox.PropertyMemory)}},
		{name: "not there", tier: checked{refused: down}, failed: "missing program: bwrap is not there", unmet: "bwrap is not there"},
		{name: "does not start", tier: checked{start: down}, failed: "bwrap is not there", unmet: "bwrap is not there"},
		{name: "ends at once", tier: checked{silent: true}, failed: "the Hand in it cannot be spoken to", unmet: "out of memory"},
		{name: "cannot be read back", tier: checked{inspect: errors.New("no cgroup")}, failed: "what is in force cannot be read back: no cgroup", unmet: "no cgroup"},
		{name: "cannot be ended", tier: checked{stop: errors.New("pid 7 is left")}, err: "pid 7 is left", unmet: `user = "unprivileged" is demanded and unknown`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := sandbox.Check(t.Context(), &c.tier, &sandbox.Spec{Hand: "/hand", Network: sandbox.NetworkNone})
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v", err)
			}
			if r.Usable != (c.failed == "") || !r.Usable && !strings.Contains(r.Err.Error(), c.failed) {
				t.Errorf("%+v", r)
			}
			unmet := strings.Join(r.Unmet(sandbox.Requirements{sandbox.PropertyUser: "unprivileged", sandbox.PropertyMemory: "limited"}), "\n")
			if c.unmet == "" && unmet != "" || !strings.Contains(unmet, c.unmet) {
				t.Errorf("unmet: %q", unmet)
			}
			if c.tier.live != 0 {
				t.Error("the boundary lives on")
			}
			if s := c.tier.spec; s != nil {
				if _, err := os.Stat(s.Workspace); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("its folder is left: %v", err)
				}
			}
		})
	}
}
