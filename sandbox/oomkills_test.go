package sandbox

import (
	"context"
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// TestAHandAsksWhatTheKernelKilled: during a call of its own, where the boundary knows.
func TestAHandAsksWhatTheKernelKilled(t *testing.T) {
	three := func() (uint64, error) { return 3, nil }
	for name, c := range map[string]struct {
		kills func() (uint64, error)
		other bool // it names an operation that does not run
		want  uint64
	}{
		"known":            {kills: three, want: 3},
		"not known":        {},
		"for another call": {kills: three, other: true},
	} {
		tier := newFakeTier("fake")
		tier.oomKills = c.kills
		tier.call = func(ctx context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
			q := OOMParams{Operation: p.Operation()}
			if c.other {
				q.Operation = "other/1/0"
			}
			var got OOMCount
			s, err := h.channel().Open(ctx, MethodOOMKills, q)
			if err == nil {
				err = s.Result(&got)
			}
			var no *RemoteError
			if refused := errors.As(err, &no) && no.Kind == RemoteRefused; got.Kills != c.want || refused != (c.want == 0) {
				t.Errorf("%s: %d, %v", name, got.Kills, err)
			}
			return &batch.Output{CallID: p.ID}, nil
		}
		newFakeWorld(t, tier, nil).mustRun("r", 1)
	}
}
