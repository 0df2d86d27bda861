package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func testNewBatch(_ *testing.T, h *harness) {
	h.create("a")
	want := newBatch("a", 1, 3)
	want.Calls[1].Pin = batch.Pin{PolicyRevision: "rev-1"} // an unknown tool
	given := clone(want)
	// What the engine fills in for an executor is not part of the stored call.
	given.Calls[0].Call.Attempt, given.Calls[0].Call.ToolDigest = 2, "sha256:tool"
	given.Calls[0].Call.Grant = &batch.Grant{MemoryMiB: 1}
	given.Calls[0].Call.State = map[string]json.RawMessage{"k": json.RawMessage(`1`)}
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = given, true })
	h.equal("batch", h.batch("a", 1), want)
}

func testNewBatchTwice(_ *testing.T, h *harness) {
	want := h.request("a", 2)
	other := newBatch("a", 1, 5)
	other.Digest = "sha256:other"
	h.refused(h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch, c.NewBatch = other, true })), batch.ErrConflict)
	h.equal("batch", h.batch("a", 1), want)
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = newBatch("a", 2, 1), true })
	h.equal("second batch", h.batch("a", 2), newBatch("a", 2, 1))
}

func testUnknownBatch(_ *testing.T, h *harness) {
	h.request("a", 1)
	h.refused(h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch = newBatch("a", 2, 1) })), batch.ErrNotFound)
	_, err := h.Batch(ctx, "a", 2)
	h.refused(err, batch.ErrNotFound)
	_, err = h.Batch(ctx, "a", 0)
	h.refused(err, batch.ErrNotFound)
}

func testChangedOnly(_ *testing.T, h *harness) {
	b := h.request("a", 3)
	h.must(b.Start(0, &batch.Grant{Hosts: []string{}, Paths: map[string]string{"/w": "ro"}, Timeout: time.Second}, epoch))
	b.Calls[2].Reason = "not listed in Changed"
	h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{0} })
	b.Calls[2].Reason = ""
	h.equal("after the first", h.batch("a", 1), b)

	h.must(b.Complete(0, &batch.Output{CallID: b.Calls[0].Call.ID, Content: []batch.ContentBlock{batch.TextBlock("2")}}, batch.AnswerTool, epoch.Add(time.Second)))
	h.must(b.Await(1, "t1"))
	h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{0, 1} })
	h.equal("after the second", h.batch("a", 1), b)

	for i := 1; i < 3; i++ {
		h.must(b.Start(i, nil, epoch))
		h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{i} })
		h.must(b.GiveUp(i, "the host \"stopped\" <here>", epoch.Add(time.Minute)))
		if i == 2 {
			h.must(b.Finalize(epoch.Add(time.Hour)))
		}
		h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{i} })
		h.equal(fmt.Sprint("after call ", i), h.batch("a", 1), b)
	}
}

func testImmutable(_ *testing.T, h *harness) {
	want := h.request("a", 2)
	b := clone(want)
	h.must(b.Start(0, nil, epoch))
	h.must(want.Start(0, nil, epoch))
	b.Message = []byte("another message")
	b.Calls[0].Call.Arguments = []byte("other arguments")
	b.Calls[0].Pin.PolicyRevision = "another"
	b.Calls[1].Call.Arguments = nil
	h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{0} })
	h.equal("batch", h.batch("a", 1), want)
}

func testInvalidBatch(t *testing.T, h *harness) {
	b := h.request("a", 2)
	for name, edit := range map[string]func(*batch.Batch){
		"empty":          func(b *batch.Batch) { b.Calls = nil },
		"duplicate id":   func(b *batch.Batch) { b.Calls[1].Call.ID = b.Calls[0].Call.ID },
		"unknown phase":  func(b *batch.Batch) { b.Calls[0].Phase = "dreaming" },
		"finalized":      func(b *batch.Batch) { b.Phase = batch.BatchFinalized },
		"no batch phase": func(b *batch.Batch) { b.Phase = "" },
	} {
		fresh := newBatch("a", 2, 2)
		edit(fresh)
		if err := h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch, c.NewBatch = fresh, true })); err == nil {
			t.Errorf("%s: a new batch that cannot be loaded was stored", name)
		}
		if name == "duplicate id" {
			continue // ids are not written again
		}
		old := clone(b)
		edit(old)
		if err := h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch, c.Changed = old, []int{0} })); err == nil {
			t.Errorf("%s: a change that cannot be loaded was stored", name)
		}
	}
	for _, changed := range [][]int{{-1}, {2}, {0, 7}} {
		h.refused(h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch, c.Changed = clone(b), changed })), batch.ErrInvalid)
	}
	wide := newBatch("a", 1, 3)
	h.refused(h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Batch, c.Changed = wide, []int{2} })), batch.ErrInvalid)
	h.equal("batch", h.batch("a", 1), b)
}

func testBytes(_ *testing.T, h *harness) {
	h.create("a")
	b := newBatch("a", 1, 6)
	b.Message = []byte("\xff\xfe{ \"calls\" :\r\n\t[ ] }\x00 ")
	b.Calls[0].Call.Arguments = []byte("{ \"b\" : 1,\n  \"a\" :  1.0e3 }  ")
	b.Calls[1].Call.Arguments = []byte("\xff\xfe not JSON, \xed\xa0\x80 not UTF-8")
	b.Calls[2].Call.Arguments = nil
	b.Calls[3].Call.Arguments = []byte{}
	b.Calls[4].Call.Arguments = []byte(`{"html":"<b>&</b>","line":"` + "\u2028" + `"}`)
	b.Calls[5].Call.Arguments = bytes.Repeat([]byte{0}, 3)
	b.Calls[5].Call.Tool = "\xff\xfeno such tool <&>"
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = b, true })
	got := h.batch("a", 1)
	h.equal("message", got.Message, b.Message)
	h.equal("tool", got.Calls[5].Call.Tool, b.Calls[5].Call.Tool)
	for i := range b.Calls {
		if !bytes.Equal(got.Calls[i].Call.Arguments, b.Calls[i].Call.Arguments) {
			h.t.Fatalf("arguments %d: got %q, want %q", i, got.Calls[i].Call.Arguments, b.Calls[i].Call.Arguments)
		}
		h.equal("digest", got.Calls[i].Call.ArgumentDigest(), b.Calls[i].Call.ArgumentDigest())
	}
}

func testOutputShapes(_ *testing.T, h *harness) {
	outputs := []*batch.Output{
		{Content: []batch.ContentBlock{batch.TextBlock("<b>&\u2028 \x00"), batch.TextBlock("")}},
		{Content: []batch.ContentBlock{batch.JSONBlock([]byte("{ \"z\" : 1 , \n\"a\": \"<&>\" }"))}},
		{Content: []batch.ContentBlock{
			{Type: batch.BlockImage, Data: []byte{0, 1, 255}, MimeType: "image/png"},
			{Type: batch.BlockAudio, Data: []byte("x"), MimeType: "audio/ogg"},
			{Type: batch.BlockResource, URI: "file:///a", Text: "t", MimeType: "text/plain"},
			{Type: batch.BlockResource, URI: "file:///b", Data: []byte{9}},
		}, Tier: "local", Fallback: "tier docker: no such program"},
		{Content: []batch.ContentBlock{}, State: []batch.Command{
			{Op: batch.OpSet, Key: "k", Value: json.RawMessage(`{ "a" : 1 }`)},
			{Op: batch.OpDelete, Key: "k"},
		}},
		{IsError: true},
	}
	b := h.request("a", len(outputs))
	for i, out := range outputs {
		out.CallID = b.Calls[i].Call.ID
		h.must(b.Complete(i, out, batch.AnswerPolicy, epoch))
		h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{i} })
	}
	got := h.batch("a", 1)
	for i := range outputs {
		h.equal(fmt.Sprint("output ", i), got.Calls[i].Output, outputs[i])
	}
	h.Store = h.reopen()
	h.equal("batch after a restart", h.batch("a", 1), b)
}

func testLarge(_ *testing.T, h *harness) {
	h.create("a")
	b := newBatch("a", 1, 2)
	b.Calls[0].Call.Arguments = bytes.Repeat([]byte(`{"x": 1} `), 10<<20/9)
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = b, true })
	text := strings.Repeat("0123456789abcdef", 1<<20)
	h.must(b.Complete(0, &batch.Output{CallID: b.Calls[0].Call.ID, Content: []batch.ContentBlock{batch.TextBlock(text)}}, batch.AnswerPolicy, epoch))
	h.commit("a", func(c *batch.Commit) {
		c.Batch, c.Changed = b, []int{0}
		c.State = []batch.StateWrite{{Key: "big", Value: json.RawMessage(`"` + text[:1<<20] + `"`)}}
	})
	check := func() {
		h.t.Helper()
		got := h.batch("a", 1)
		if !bytes.Equal(got.Calls[0].Call.Arguments, b.Calls[0].Call.Arguments) {
			h.t.Fatal("10 MiB of arguments came back changed")
		}
		if got.Calls[0].Output == nil || got.Calls[0].Output.Content[0].Text != text {
			h.t.Fatal("16 MiB of output came back changed")
		}
		st, err := h.State(ctx, "a")
		h.must(err)
		h.equal("state size", len(st["big"]), 1<<20+2)
	}
	check()
	h.Store = h.reopen()
	check()
}

func testThousandCalls(_ *testing.T, h *harness) {
	const n = 1000
	h.create("a")
	b := newBatch("a", 1, n)
	for i := range b.Calls {
		b.Calls[i].Call.Arguments = fmt.Appendf(nil, `{"i": %d, "pad": "%s"}`, i, strings.Repeat("x", 1000))
	}
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = b, true })
	h.equal("requested", h.batch("a", 1), b)
	for i := range 20 {
		h.must(b.Complete(i, batch.ErrorOutput(b.Calls[i].Call.ID, "blocked"), batch.AnswerBlocked, epoch))
		h.commit("a", func(c *batch.Commit) {
			c.Batch, c.Changed = b, []int{i}
			c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, i, 1)}
		})
	}
	h.equal("twenty answered", h.batch("a", 1), b)

	// All at once, in one commit.
	rest := make([]int, 0, n)
	decisions := make([]*batch.DecisionRecord, 0, n)
	for i := 20; i < n; i++ {
		h.must(b.Complete(i, batch.ErrorOutput(b.Calls[i].Call.ID, "blocked"), batch.AnswerBlocked, epoch))
		rest = append(rest, i)
		decisions = append(decisions, newDecision("a", 1, i, 1))
	}
	h.must(b.Finalize(epoch))
	h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed, c.Decisions = b, rest, decisions })
	h.equal("all answered", h.batch("a", 1), b)
	ds, err := h.Decisions(ctx, "a")
	h.must(err)
	h.equal("decisions", len(ds), n)
	h.Store = h.reopen()
	h.equal("after a restart", h.batch("a", 1), b)
}

func testOpen(_ *testing.T, h *harness) {
	list := func() []batch.BatchID {
		h.t.Helper()
		ids, err := h.Open(ctx)
		h.must(err)
		return ids
	}
	h.equal("open in an empty store", len(list()), 0)
	for _, id := range []batch.RunID{"b", "a.b", "a", "aa"} {
		h.request(id, 1)
	}
	h.create("idle")
	h.equal("open", list(), []batch.BatchID{"a/1", "a.b/1", "aa/1", "b/1"})
	b := h.batch("a", 1)
	h.must(b.Complete(0, batch.ErrorOutput(b.Calls[0].Call.ID, "no"), batch.AnswerBlocked, epoch))
	h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{0} })
	h.equal("open while only the call is terminal", list(), []batch.BatchID{"a/1", "a.b/1", "aa/1", "b/1"})
	h.must(b.Finalize(epoch))
	h.commit("a", func(c *batch.Commit) { c.Batch = b })
	h.equal("open after one is finalized", list(), []batch.BatchID{"a.b/1", "aa/1", "b/1"})
	h.equal("finalized", h.batch("a", 1), b)
	for step := 2; step <= 11; step++ {
		h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = newBatch("a", step, 1), true })
	}
	h.Store = h.reopen()
	ids := list()
	h.equal("number open", len(ids), 13)
	h.equal("steps in order", ids[8:10], []batch.BatchID{"a/10", "a/11"})
}
