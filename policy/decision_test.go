package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/util"

	"github.com/awaken-agents/awaken-host/batch"
)

func decoded(t testing.TB, s string) any {
	t.Helper()
	var x any
	if err := util.UnmarshalJSON([]byte(s), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

const someReasons = `"reasons":[{"code":"a","message":"m"}]`

func TestReadDecision(t *testing.T) {
	for _, good := range []string{
		`{"outcome":"block",` + someReasons + `}`,
		`{"outcome":"block","reasons":[{"code":"a"},{"code":"b"}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"hosts":[],"commands":["git"],"paths":{"/a":"ro"},"memory_mib":3,"timeout_ns":5}]}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"text","text":""}],"is_error":false}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":1}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":2.0,"approvers":["a","b"],"timeout_ns":1e9}}`,
		`{"outcome":"schedule",` + someReasons + `,"at_ns":1751328000000000001}`,
	} {
		if _, err := readDecision(decoded(t, good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		`null`, `true`, `"allow"`, `[]`, `{}`,
		`{"outcome":"allow"}`,
		`{"outcome":"allow",` + someReasons + `}`,
		`{"outcome":"allow",` + someReasons + `,"grants":null}`,
		`{"outcome":"allow",` + someReasons + `,"grants":{}}`,
		`{"outcome":"allow","reasons":[],"grants":[]}`,
		`{"outcome":"allow","reasons":{},"grants":[]}`,
		`{"outcome":"allow","reasons":["a"],"grants":[]}`,
		`{"outcome":"allow","reasons":[{}],"grants":[]}`,
		`{"outcome":"allow","reasons":[{"code":""}],"grants":[]}`,
		`{"outcome":"allow","reasons":[{"code":1}],"grants":[]}`,
		`{"outcome":"allow","reasons":[{"code":"a","message":null}],"grants":[]}`,
		`{"outcome":"allow","reasons":[{"code":"a","extra":1}],"grants":[]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[],"at_ns":1}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"secrets":["a"]}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"hosts":null}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"hosts":[""]}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"paths":{"/a":"x"}}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"paths":{"/a":1}}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"memory_mib":0}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"timeout_ns":-5}]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"timeout_ns":1e30}]}`,
		`{"Outcome":"allow",` + someReasons + `,"grants":[]}`,
		`{"outcome":"ALLOW",` + someReasons + `,"grants":[]}`,
		`{"outcome":"",` + someReasons + `}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[],"is_error":false}}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"text","text":"a"}]}}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"text","data":"AA=="}],"is_error":false}}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"image","data":"AA","mime_type":"a/b"}],"is_error":false}}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"text","text":"a"}],"is_error":false,"state":[]}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"","quorum":1}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p"}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":0}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":1,"approvers":[]}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":2,"approvers":["a","a"]}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":1,"timeout_ns":0}}`,
		`{"outcome":"schedule",` + someReasons + `}`,
		`{"outcome":"schedule",` + someReasons + `,"at_ns":0}`,
		`{"outcome":"schedule",` + someReasons + `,"at_ns":"2025"}`,
		`{"outcome":"schedule",` + someReasons + `,"at_ns":9999999999999999999}`,
	} {
		a, err := readDecision(decoded(t, bad))
		var shape *shapeError
		if !errors.As(err, &shape) {
			t.Errorf("%s: got %+v, %v", bad, a, err)
		}
	}
}

func TestReasonsAreBounded(t *testing.T) {
	var rs []batch.Reason
	for range 100 {
		rs = append(rs, batch.Reason{Code: strings.Repeat("c", 100), Message: strings.Repeat("é", maxMessageBytes)})
	}
	rs = clipReasons(rs)
	if len(rs) != maxReasons+1 || rs[maxReasons].Message != "68 more" {
		t.Errorf("got %d reasons, last %+v", len(rs), rs[len(rs)-1])
	}
	if m := rs[0].Message; len(m) > maxMessageBytes || !strings.HasSuffix(m, "é…") || len(rs[0].Code) > 64 {
		t.Errorf("got %d bytes ending in %q", len(m), m[len(m)-6:])
	}
}

// An arbitrary document is a decision of the exact shape, with no field passed over,
// or none; and no grant in it goes beyond what the plugin may use.
func FuzzReadDecision(f *testing.F) {
	for _, s := range []string{
		`{"outcome":"allow",` + someReasons + `,"grants":[]}`,
		`{"outcome":"allow",` + someReasons + `,"grants":[{"hosts":["a"],"commands":["git"],"paths":{"/a":"ro"},"memory_mib":3,"timeout_ns":5}]}`,
		`{"outcome":"block",` + someReasons + `}`,
		`{"outcome":"set_result",` + someReasons + `,"result":{"content":[{"type":"json","json":{"a":[1]}},{"type":"resource","uri":"u","data":"AA==","mime_type":"a/b"}],"is_error":true}}`,
		`{"outcome":"require_confirmation",` + someReasons + `,"confirmation":{"prompt":"p","quorum":2,"approvers":["a","b"],"timeout_ns":10}}`,
		`{"outcome":"schedule",` + someReasons + `,"at_ns":1751328000000000001}`,
		`{"outcome":"allow"}`, `{}`, `null`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var x any
		if util.UnmarshalJSON(raw, &x) != nil {
			return
		}
		a, err := readDecision(x)
		if err != nil {
			var shape *shapeError
			if !errors.As(err, &shape) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		m := x.(map[string]any)
		if string(a.outcome) != m["outcome"] || len(a.reasons) == 0 {
			t.Fatalf("read %s as %+v", raw, a)
		}
		fields := 2
		switch a.outcome {
		case batch.OutcomeBlock:
		case batch.OutcomeAllow, batch.OutcomeSetResult, batch.OutcomeRequireConfirmation, batch.OutcomeSchedule:
			fields = 3
		default:
			t.Fatalf("outcome %q", a.outcome)
		}
		if len(m) != fields {
			t.Fatalf("passed over a field of %s", raw)
		}
		if (a.result != nil) != (a.outcome == batch.OutcomeSetResult) ||
			(a.confirmation != nil) != (a.outcome == batch.OutcomeRequireConfirmation) ||
			a.at.IsZero() == (a.outcome == batch.OutcomeSchedule) {
			t.Fatalf("parts do not go with the outcome: %s gave %+v", raw, a)
		}
		e := testPlugin().Effective
		if g, _ := narrow(e, a.grants); g != nil {
			for _, h := range g.Hosts {
				if !slices.Contains(e.Hosts, h) {
					t.Fatalf("host %q of %s", h, raw)
				}
			}
			for _, c := range g.Commands {
				if !slices.Contains(e.Commands, c) {
					t.Fatalf("command %q of %s", c, raw)
				}
			}
			for p, mode := range g.Paths {
				if e.Paths[p] != mode && e.Paths[p] != "rw" {
					t.Fatalf("path %q %s of %s", p, mode, raw)
				}
			}
			if g.MemoryMiB < 0 || g.MemoryMiB > e.MemoryMiB || g.Timeout < 0 || g.Timeout > e.Timeout {
				t.Fatalf("grant %+v of %s", g, raw)
			}
		}
		if a.result != nil {
			for _, b := range a.result.Content {
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
				if b.JSON != nil && !json.Valid(b.JSON) {
					t.Fatalf("invalid JSON in a block: %s", b.JSON)
				}
			}
		}
		if c := a.confirmation; c != nil && (c.Prompt == "" || c.Quorum < 1 || c.Timeout < 0) {
			t.Fatalf("confirmation %+v", c)
		}
	})
}
