package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// A workspace that cannot be carried out is not given up: its sandbox goes on.
func TestWorkspaceThatCannotBeCarriedOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tier := newFakeTier(TierKube)
		tier.carry = true
		size := int64(3 << 20) // more than the workspace may hold
		tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
			root, err := h.inside(WorkspaceDir)
			if err != nil {
				return nil, err
			}
			defer root.Close()
			f, err := root.Create("log")
			if err == nil {
				err = f.Truncate(size)
				_ = f.Close()
			}
			return &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock("written")}}, err
		}
		w := newFakeWorld(t, tier, func(o *Options) { o.Limits.WorkspaceMiB = 2; o.MaxReady = 1 })
		w.mustRun("r1", 1)
		time.Sleep(DefaultIdle + time.Second)
		synctest.Wait()
		if e := w.state("r1"); e != EnvironmentReady {
			t.Fatalf("the sandbox with the only copy is %s", e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.x.Invoke(ctx, w.request("r2", 1)); err == nil {
			t.Error("room was made with it")
		}
		size = 1
		w.mustRun("r1", 2)
		time.Sleep(2*DefaultIdle + time.Second)
		synctest.Wait()
		if e := w.state("r1"); e != EnvironmentHibernated {
			t.Errorf("once the workspace fits, the sandbox is %s", e)
		}
		files, err := w.m.Files("r1")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := files.List(t.Context(), ""); err != nil || len(info) != 1 || info[0].Bytes != 1 {
			t.Errorf("the workspace holds %+v, %v", info, err)
		}
	})
}
