package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// What is only partly written out is judged by that part.
func TestEntriesThatAreWrittenOut(t *testing.T) {
	tests := []struct{ rule, entry, says string }{
		{"block", `5`, "an entry of block is not a reason"},
		{"block", `[input.tool.id]`, "an entry of block is not a reason"},
		{"block", `{input.tool.id}`, "an entry of block is not a reason"},
		{"block", `[x | some x in input.call.arguments]`, "an entry of block is not a reason"},
		{"block", `{x | some x in input.call.arguments}`, "an entry of block is not a reason"},
		{"block", `{"code": "a", "mesage": sprintf("%v", [input.tool.id])}`, `has the key "mesage", which is not known; did you mean "message"?`},
		{"block", `{"code": "a", "whatever": input.tool.id}`, `the key "whatever", which is not known; known are code, message`},
		{"block", `{"code": "Not This", "message": input.tool.id}`, `the "code" of an entry of block must be a text of lower-case letters`},
		{"block", `{"message": input.tool.id}`, "an entry of block is not a reason"},
		{"require_confirmation", `{"prompt": input.tool.id, "timeout": 5}`, `the "timeout" of an entry of require_confirmation must be a duration`},
		{"require_confirmation", `{"approvers": ["alice "]}`, `the "approvers" of an entry of require_confirmation must be a list of names, with no spaces around them`},
		{"schedule", `{"after": input.call.arguments.a, "at": input.now}`, "an entry of schedule is not"},
		{"schedule", `{"at": "2025-13-41T00:00:00Z"}`, `the "at" of an entry of schedule must be a time`},
		{"set_result", `{"text": input.tool.id, "reason": 7}`, `the "reason" of an entry of set_result must be a text`},
		{"grant", `{"memory": input.call.arguments.m}`, `the key "memory", which is not known`},
		{"grant", `{"memory_mib": 0.5, "hosts": [input.tool.id]}`, `the "memory_mib" of an entry of grant must be a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.rule+" "+tt.entry, func(t *testing.T) {
			ps := problemsOf(t, options(t, allowAll+"\nblock contains \"fine\"\n"+tt.rule+" contains "+tt.entry+" if input.tool.id"))
			if len(ps) != 1 || ps[0].Line != 5 || !strings.HasSuffix(ps[0].File, "policy.rego") || !strings.Contains(ps[0].Message, tt.says) {
				t.Errorf("got %v, want line 5 with %q", ps, tt.says)
			}
		})
	}
}

// However much else is there, and whatever codes policies give.
func TestAnOddEntryAmongMany(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "block contains \"%03d\"\n", i)
	}
	b.WriteString("block contains {\"code\": \"odd_shape\", \"message\": \"mine\"}\n")
	if _, err := Check(context.Background(), options(t, b.String())); err != nil {
		t.Error(err)
	}
	if ps := problemsOf(t, options(t, b.String()+"block contains 5\nset_result contains 6")); len(ps) != 2 || ps[0].Line != 103 || ps[1].Line != 104 {
		t.Errorf("got %v", ps)
	}
}

// What a call decides is not judged before it.
func TestEntriesThatAreComputed(t *testing.T) {
	for _, policy := range []string{
		`block contains x if some x in input.call.arguments`,
		`block contains {"code": input.call.arguments.a, "message": input.call.arguments.b}`,
		`block contains {input.call.arguments.a: 1}`,
		`block contains $"no {input.tool.id}"`,
		`block := {x | some x in input.call.arguments}`,
		`block := {"a", input.call.arguments.b}`,
		`block := input.call.arguments.x`,
		`block := set()`,
		`allow if input.tool.id`,
		"default allow := false\nallow if input.tool.id",
		`require_confirmation contains {"prompt": input.call.arguments.a, "approvers": [input.call.arguments.b], "timeout": input.call.arguments.c, "quorum": input.call.arguments.d}`,
		"set_result contains {\"text\": \"a\"}\nset_result contains {\"text\": \"b\"}",
		`other contains 5`,
		"block contains 5 if false", // but this one is
	} {
		_, err := Check(context.Background(), options(t, policy))
		if wrong := strings.Contains(policy, "5 if false"); (err != nil) != wrong {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

// The table of fields is the base policy's: each example fits, and a key that is not
// in the table does not.
func TestEntryFields(t *testing.T) {
	needs := map[string]string{"allow": `"code": "c"`, "block": `"code": "c"`, "schedule": `"after": "1h"`, "set_result": `"text": "t"`, "require_confirmation": `"prompt": "p"`, "grant": `"memory_mib": 1`}
	if len(entryFields) != len(ruleNames) {
		t.Fatalf("%d rules have fields, there are %d", len(entryFields), len(ruleNames))
	}
	var all []string
	for _, fields := range entryFields {
		for key := range fields {
			all = append(all, key)
		}
	}
	for rule, fields := range entryFields {
		var policy strings.Builder
		want := map[int]bool{}
		for i, key := range append(all, "other") {
			f, known := fields[key]
			if !known {
				f.example, want[i+2] = `"x"`, true
			}
			doc := fmt.Sprintf(`{%s, %q: %s}`, needs[rule], key, f.example)
			alone := key == "at" || key == "json" || key == "content" || strings.HasPrefix(needs[rule], fmt.Sprintf("%q:", key))
			if known && alone { // instead of what is needed
				doc = fmt.Sprintf(`{%q: %s}`, key, f.example)
			}
			fmt.Fprintf(&policy, "%s contains %s\n", rule, doc)
		}
		for _, p := range problemsOf(t, options(t, policy.String())) {
			if !want[p.Line] {
				t.Errorf("%s: %s", rule, p)
			}
			delete(want, p.Line)
		}
		if len(want) > 0 {
			t.Errorf("%s: nothing is said of lines %v of\n%s", rule, want, policy.String())
		}
	}
}

// The rules that a report counts are those that can add something.
func TestReportCountsWhatIsInForce(t *testing.T) {
	tests := []struct {
		policy string
		allow  int
		warned bool
	}{
		{"default allow := false", 0, true},
		{"default allow := false\nallow if input.tool.id", 1, false},
		{"allow := false", 0, true},
		{"allow := false if input.tool.id", 0, true},
		{"allow := false if input.call.arguments.x\nelse := true if input.call.arguments.y", 1, false},
		{"allow contains \"x\"\nallow contains \"y\"", 2, false},
	}
	for _, tt := range tests {
		r, err := Check(context.Background(), options(t, tt.policy))
		if err != nil {
			t.Fatal(err)
		}
		warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0].Message, "every call is blocked")
		if r.Rules["allow"] != tt.allow || warned != tt.warned {
			t.Errorf("%s: got %v, %v", tt.policy, r.Rules, r.Warnings)
		}
	}
}

func TestLoadingCanBeCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if g, err := Open(ctx, options(t, allowAll)); g != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", g, err)
	}
	// In the middle of compiling, too.
	var big strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&big, "h%d if input.call.arguments.a == %d\n", i, i)
	}
	o := options(t, big.String())
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if g, err := Open(ctx, o); g != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", g, err)
	}
}

func TestPersons(t *testing.T) {
	var policy strings.Builder
	want, line := map[int]string{}, 1
	for name, ok := range map[string]bool{
		"alice": true, "Ada Lovelace": true, "Åsa": true, "a\u0301": true, "alice@example.com": true, "王小明": true, strings.Repeat("é", 256): true,
		"": false, " ": false, " alice": false, "alice ": false, "alice\u00a0": false, "a\tb": false, "a\nb": false, "a\x00": false, "a\x7f": false, "a\u0085": false,
		"a\u200b": false, "a\u200d": false, "a\u00ad": false, "\ufeffa": false, "a\u2028b": false, "a\u202eb": false, "a\u2066b": false, "a\ufe0f": false,
		"a\u034fb": false, "\u3164": false, "a\u115f": false, "\u2800": false, "a\ue000": false, "a\U000e0041": false, strings.Repeat("a", 257): false,
	} {
		if isPerson(name) != ok {
			t.Errorf("%q: the reader of decisions says %v", name, !ok)
		}
		escaped := ""
		for _, c := range utf16.Encode([]rune(name)) {
			escaped += fmt.Sprintf(`\u%04x`, c)
		}
		fmt.Fprintf(&policy, "require_confirmation contains {\"approvers\": [\"%s\", \"bob\"]}\n", escaped)
		if line++; !ok {
			want[line] = name
		}
	}
	for _, p := range problemsOf(t, options(t, policy.String())) {
		if _, ok := want[p.Line]; !ok {
			t.Errorf("the base policy: %s", p)
		}
		delete(want, p.Line)
	}
	if len(want) > 0 {
		t.Errorf("the base policy takes %+q", slices.Collect(maps.Values(want)))
	}
}
