package container

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// Ask runs a command of the engine, as another user of it would.
func ask(t *testing.T, tier *Tier, args ...string) string {
	t.Helper()
	out, err := tier.ask(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestKilledByAnother(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		s := start(t, tier, spec)
		s.pull("child killed-" + spec.ID)
		ask(t, tier, "kill", containerName(spec.ID))
		if err := s.wait(); sandbox.ReasonOf(err) != sandbox.ReasonKilled || !strings.Contains(err.Error(), "by signal 9") {
			t.Errorf("%v", err)
		}
		if alive("killed-" + spec.ID) {
			t.Error("a child survives its container")
		}
	})
}

// A container that somebody has paused answers nothing, and neither does one of podman
// whose conmon was killed, which held its standard input and output. The engine says
// nothing about either: it is the heartbeats that stop. It can be removed all the same.
func TestSilenced(t *testing.T) {
	paused := func(t *testing.T, tier *Tier, name string) { ask(t, tier, "pause", name) }
	t.Run("paused", func(t *testing.T) {
		eachEngine(t, func(t *testing.T, o Options) { silence(t, o, paused) })
	})
	t.Run("conmon killed", func(t *testing.T) {
		silence(t, podman(t), func(t *testing.T, tier *Tier, name string) {
			var list []struct{ State struct{ ConmonPid int } }
			if err := json.Unmarshal([]byte(ask(t, tier, "container", "inspect", name)), &list); err != nil || len(list) != 1 || list[0].State.ConmonPid <= 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			if err := syscall.Kill(list[0].State.ConmonPid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func silence(t *testing.T, o Options, how func(t *testing.T, tier *Tier, name string)) {
	t.Parallel()
	tier, spec := newTier(t, o), newSpec(t)
	spec.Hand, spec.Env = sandboxtest.Hand(t), []string{"PUPPET_NAME=silenced-" + spec.ID}
	i, err := tier.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, i) })
	hello := sandbox.Hello{Environment: spec.ID, Key: make([]byte, 32), Network: sandbox.NetworkNone, Limits: spec.Limits.WithDefaults()}
	ch, _, err := sandbox.Dial(t.Context(), i.Channel(), hello, sandbox.ChannelOptions{Heartbeat: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if !alive("silenced-" + spec.ID) {
		t.Error("its Hand is not seen")
	}
	how(t, tier, containerName(spec.ID))
	select {
	case <-ch.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody notices")
	}
	if err := ch.Err(); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("%v", err)
	}
	stop(t, i)
	if alive("silenced-" + spec.ID) {
		t.Error("its Hand survives Stop")
	}
	if left, err := tier.Leftovers(t.Context(), spec.Labels.Host); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// What the client of a host that was killed has left is in nobody's way, and nothing
// is put where nobody looks for it.
func TestClientFolder(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		tier, spec := newTier(t, o), newSpec(t)
		folder := filepath.Join(filepath.Dir(spec.State), clientFolder)
		stale := filepath.Join(folder, "oom")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(stale, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		s := start(t, tier, spec)
		_, err := os.Lstat(stale)
		if litters := tier.engine.litters; litters != errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", stale, err)
		}
		ask(t, tier, "kill", containerName(spec.ID))
		if err := s.wait(); sandbox.ReasonOf(err) != sandbox.ReasonKilled {
			t.Errorf("%v", err)
		}
		stop(t, s)
		if _, err := os.Lstat(folder); tier.engine.litters && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays: %v", folder, err)
		}
	})
}
