package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestOutcomes(t *testing.T) {
	block := batch.OutcomeBlock
	tests := []struct {
		name    string
		policy  string
		outcome batch.Outcome
		codes   string
		check   func(t *testing.T, d *batch.Decision)
	}{
		{name: "nothing matches", policy: `allow contains "no" if input.tool.id == "other"`, outcome: block, codes: "no_rule"},
		{name: "nothing is written", policy: ``, outcome: block, codes: "no_rule"},
		{name: "allow", policy: `allow contains "reads" if input.tool.annotations.read_only`, outcome: "allow", codes: "allow",
			check: func(t *testing.T, d *batch.Decision) {
				if d.Reasons[0].Message != "reads" || d.Grant != nil {
					t.Errorf("got %+v, grant %v", d.Reasons, d.Grant)
				}
			}},
		{name: "allow with a code", policy: `allow contains {"code": "reader", "message": "m"}`, outcome: "allow", codes: "reader"},
		{name: "allow with a code alone", policy: `allow contains {"code": "reader"}`, outcome: "allow", codes: "reader"},
		{name: "allow as a boolean", policy: "default allow := false\nallow if input.run.principal == \"alice\"", outcome: "allow", codes: "allow"},
		{name: "allow as a boolean that is false", policy: "default allow := false\nallow if input.run.principal == \"bob\"", outcome: block, codes: "no_rule"},
		{name: "several reasons", policy: "allow contains \"b\"\nallow contains \"a\"\nallow contains {\"code\": \"z\"}", outcome: "allow", codes: "allow allow z"},
		{name: "block", policy: "block contains \"never\"\nblock contains {\"code\": \"hours\", \"message\": \"closed\"}", outcome: block, codes: "block hours"},
		{name: "block as a boolean", policy: "block if input.call.arguments.path\nallow contains \"x\"", outcome: block, codes: "block"},
		{name: "set_result text", policy: `set_result contains {"text": "cached", "reason": {"code": "cache"}}`, outcome: "set_result", codes: "cache",
			check: func(t *testing.T, d *batch.Decision) {
				want := &batch.Result{Content: []batch.ContentBlock{batch.TextBlock("cached")}}
				if !reflect.DeepEqual(d.Result, want) {
					t.Errorf("got %+v", d.Result)
				}
			}},
		{name: "set_result json", policy: `set_result contains {"json": {"n": 12345678901234567890, "x": null, "y": "<&>"}, "is_error": true}`, outcome: "set_result", codes: "set_result",
			check: func(t *testing.T, d *batch.Decision) {
				if !d.Result.IsError || string(d.Result.Content[0].JSON) != `{"n":12345678901234567890,"x":null,"y":"<&>"}` {
					t.Errorf("got %+v", d.Result)
				}
			}},
		{name: "set_result json false", policy: `set_result contains {"json": false}`, outcome: "set_result", codes: "set_result"},
		{name: "set_result content", policy: `set_result contains {"content": [
			{"type": "text", "text": "a"},
			{"type": "image", "data": "AAEC", "mime_type": "image/png"},
			{"type": "resource", "uri": "file:///a", "text": "b"},
			{"type": "json", "json": [1]}]}`, outcome: "set_result", codes: "set_result",
			check: func(t *testing.T, d *batch.Decision) {
				if len(d.Result.Content) != 4 || string(d.Result.Content[1].Data) != "\x00\x01\x02" {
					t.Errorf("got %+v", d.Result)
				}
			}},
		{name: "the same result twice", policy: "set_result contains {\"text\": \"x\", \"reason\": \"a\"}\nset_result contains {\"text\": \"x\", \"is_error\": false, \"reason\": \"b\"}",
			outcome: "set_result", codes: "set_result set_result"},
		{name: "confirm with a prompt", policy: `require_confirmation contains "Sure?"`, outcome: "require_confirmation", codes: "require_confirmation",
			check: func(t *testing.T, d *batch.Decision) {
				if !reflect.DeepEqual(d.Confirmation, &batch.Confirmation{Prompt: "Sure?", Quorum: 1}) {
					t.Errorf("got %+v", d.Confirmation)
				}
			}},
		{name: "confirm as a boolean", policy: `require_confirmation if true`, outcome: "require_confirmation", codes: "require_confirmation",
			check: func(t *testing.T, d *batch.Decision) {
				if d.Confirmation.Prompt != "May notes__read be called?" {
					t.Errorf("got %+v", d.Confirmation)
				}
			}},
		{name: "confirm with everything", policy: `require_confirmation contains {"prompt": "Sure?", "approvers": ["bob", "carol"], "quorum": 2, "timeout": "24h", "reason": {"code": "four_eyes"}}`,
			outcome: "require_confirmation", codes: "four_eyes",
			check: func(t *testing.T, d *batch.Decision) {
				want := &batch.Confirmation{Prompt: "Sure?", Approvers: []string{"bob", "carol"}, Quorum: 2, Timeout: 24 * time.Hour}
				if !reflect.DeepEqual(d.Confirmation, want) {
					t.Errorf("got %+v", d.Confirmation)
				}
			}},
		{name: "confirmations join", policy: `
			require_confirmation contains {"prompt": "B?", "approvers": {"bob", "carol", "dave"}, "timeout": "7d"}
			require_confirmation contains {"prompt": "A?", "approvers": ["carol", "dave", "eve"], "quorum": 2, "timeout": "90m"}
			require_confirmation contains "A?"`,
			outcome: "require_confirmation", codes: "require_confirmation require_confirmation",
			check: func(t *testing.T, d *batch.Decision) {
				want := &batch.Confirmation{Prompt: "A?\nB?", Approvers: []string{"carol", "dave"}, Quorum: 2, Timeout: 90 * time.Minute}
				if !reflect.DeepEqual(d.Confirmation, want) {
					t.Errorf("got %+v", d.Confirmation)
				}
			}},
		{name: "nobody is left to approve", policy: `
			require_confirmation contains {"approvers": ["bob"]}
			require_confirmation contains {"approvers": ["carol"]}`, outcome: block, codes: "no_approver"},
		{name: "fewer approvers than the quorum", policy: `require_confirmation contains {"approvers": ["bob"], "quorum": 2}`, outcome: block, codes: "no_approver"},
		{name: "only the submitter may approve", policy: `require_confirmation contains {"approvers": ["alice"]}`, outcome: block, codes: "no_approver"},
		{name: "only the submitter in capitals may approve", policy: `require_confirmation contains {"approvers": ["Alice"]}`, outcome: block, codes: "no_approver"},
		{name: "one approver written twice", policy: `require_confirmation contains {"approvers": ["bob", "Bob"], "quorum": 2}`, outcome: block, codes: "no_approver"},
		{name: "schedule after", policy: `schedule contains {"after": "10m", "reason": "quiet hours"}`, outcome: "schedule", codes: "schedule",
			check: func(t *testing.T, d *batch.Decision) {
				if !d.At.Equal(testNow.Add(10*time.Minute)) || d.Reasons[0].Message != "quiet hours" {
					t.Errorf("got %v %+v", d.At, d.Reasons)
				}
			}},
		{name: "schedule at", policy: `schedule contains {"at": "2025-07-01T02:00:00+02:00"}`, outcome: "schedule", codes: "schedule",
			check: func(t *testing.T, d *batch.Decision) {
				if !d.At.Equal(time.Date(2025, 7, 1, 0, 0, 0, 0, time.UTC)) {
					t.Errorf("got %v", d.At)
				}
			}},
		{name: "schedule at nanoseconds", policy: `schedule contains {"at": 1751328000000000001}`, outcome: "schedule", codes: "schedule",
			check: func(t *testing.T, d *batch.Decision) {
				if d.At.UnixNano() != 1751328000000000001 {
					t.Errorf("got %v", d.At.UnixNano())
				}
			}},
		{name: "the latest schedule", policy: "schedule contains {\"after\": \"1h\"}\nschedule contains {\"after\": \"1d\"}\nschedule contains {\"at\": input.now}", outcome: "schedule", codes: "schedule",
			check: func(t *testing.T, d *batch.Decision) {
				if !d.At.Equal(testNow.Add(24 * time.Hour)) {
					t.Errorf("got %v", d.At)
				}
			}},
		{name: "the clock is the query's", policy: `allow contains "x" if time.now_ns() == input.now_ns`, outcome: "allow", codes: "allow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, open(t, options(t, tt.policy)), query("read", `{"path":"a"}`))
			if d.Outcome != tt.outcome || codes(d) != tt.codes {
				t.Fatalf("got %s with %+v, want %s with %s", d.Outcome, d.Reasons, tt.outcome, tt.codes)
			}
			if tt.check != nil {
				tt.check(t, d)
			}
		})
	}
}

// Every pair of outcomes that match together: the one further left wins.
func TestPrecedence(t *testing.T) {
	order := []batch.Outcome{"block", "require_confirmation", "schedule", "set_result", "allow"}
	rules := map[batch.Outcome]string{
		"block":                `block contains "r"`,
		"require_confirmation": `require_confirmation contains "r"`,
		"schedule":             `schedule contains {"after": "1m"}`,
		"set_result":           `set_result contains {"text": "r"}`,
		"allow":                `allow contains "r"`,
	}
	for i, stronger := range order {
		for _, weaker := range order[i+1:] {
			t.Run(string(stronger)+" over "+string(weaker), func(t *testing.T) {
				d := decide(t, open(t, options(t, rules[weaker]+"\n"+rules[stronger])), query("read", `{}`))
				if d.Outcome != stronger {
					t.Errorf("got %s", d.Outcome)
				}
			})
		}
	}
}

func TestResume(t *testing.T) {
	const (
		confirm  = "require_confirmation contains \"Sure?\"\n"
		named    = "require_confirmation contains {\"approvers\": [\"bob\", \"carol\"], \"quorum\": 2}\n"
		schedule = "schedule contains {\"after\": \"1h\"}\n"
		allow    = "allow contains \"ok\"\n"
	)
	permission, due := batch.TicketPermission, batch.TicketSchedule
	tests := []struct {
		name     string
		policy   string
		approval *batch.Approval
		outcome  batch.Outcome
		codes    string
	}{
		{"an approved confirmation allows", confirm, approval(permission, "bob"), "allow", "approved"},
		{"beside an allow rule", confirm + allow, approval(permission, "bob"), "allow", "allow approved"},
		{"an approval does not ask for time", confirm + schedule, approval(permission, "bob"), "allow", "approved"},
		{"block still blocks", confirm + "block contains \"no\"", approval(permission, "bob"), "block", "block"},
		{"a policy may look at the approval", confirm + "block contains \"not bob\" if \"bob\" in input.approval.by", approval(permission, "bob"), "block", "block"},
		{"a result still answers", confirm + "set_result contains {\"text\": \"x\"}", approval(permission, "bob"), "set_result", "set_result"},
		{"nothing asks for what was approved", "", approval(permission, "bob"), "block", "no_rule"},
		{"nothing asks, but a rule allows", allow, approval(permission, "bob"), "allow", "allow"},
		{"an approval is no schedule", schedule, approval(permission, "bob"), "block", "no_rule"},
		{"enough of the named approved", named, approval(permission, "bob", "carol"), "allow", "approved"},
		{"too few of the named approved", named, approval(permission, "bob", "eve"), "block", "approval_insufficient"},
		{"one approver twice is one", named, approval(permission, "bob", "bob"), "block", "approval_insufficient"},
		{"too few for the quorum", "require_confirmation contains {\"quorum\": 2}", approval(permission, "bob"), "block", "approval_insufficient"},
		{"enough for the quorum", "require_confirmation contains {\"quorum\": 2}", approval(permission, "bob", "eve"), "allow", "approved"},
		{"the time has come", schedule, approval(due), "allow", "schedule_due"},
		{"the time has come beside an allow rule", schedule + allow, approval(due), "allow", "allow schedule_due"},
		{"the time is no approval", confirm + allow, approval(due), "block", "confirmation_missing"},
		{"the time is no approval of a schedule", confirm + schedule, approval(due), "block", "confirmation_missing"},
		{"nothing schedules any more", "", approval(due), "block", "no_rule"},
		{"blocked at the time", schedule + "block contains \"no\"", approval(due), "block", "block"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := query("wipe", `{}`)
			q.Approval = tt.approval
			d := decide(t, open(t, options(t, tt.policy)), q)
			if d.Outcome != tt.outcome || codes(d) != tt.codes {
				t.Errorf("got %s with %+v, want %s with %s", d.Outcome, d.Reasons, tt.outcome, tt.codes)
			}
		})
	}
}

func TestInputDocument(t *testing.T) {
	g := open(t, options(t, `allow contains json.marshal(input)`))
	q := query("save", `{"path": "a\u00e9", "n": 12345678901234567890.5, "deep": {"list": [1, null, true]}}`)
	q.Approval = approval(batch.TicketPermission, "bob")
	d := decide(t, g, q)
	if d.Outcome != "allow" {
		t.Fatalf("got %s with %+v", d.Outcome, d.Reasons)
	}
	const rest = `"approval":{"at":"2025-06-30T14:30:00.123456789Z","by":["bob"],"kind":"permission","requested":"2025-06-30T13:30:00.123456789Z","ticket":"t1"},` +
		`"call":{%s"id":"toolu_1","operation":"r1/3/1"},` +
		`"history":{"principal":{"10m":{},"1h":{},"1m":{},"24h":{}},"run":{"notes__save":2}},` +
		`"now":"2025-06-30T14:30:00.123456789Z","now_ns":1751293800123456789,` +
		`"run":{"agent":"helper","id":"r1","labels":{"team":"blue"},"principal":"alice","step":3},` +
		`"tool":{"annotations":{"read_only":false,"weight":1.5},` +
		`"capabilities":{"commands":["git","make"],"hosts":["api.example.com:443","db.example.com:5432"],"memory_mib":64,"paths":{"/data":"ro","/workspace":"rw"},"secrets":[],"timeout_ms":5000},` +
		`"digest":"` + testDigest + `","id":"notes__save","plugin":"notes","signer":"A1B2C3D4E5F60718","target":"brain","trusted_by":"signature","version":"1.2.0"}`
	seen := "{" + strings.Replace(rest, "%s", `"arguments":{"deep":{"list":[1,null,true]},"n":12345678901234567890.5,"path":"aé"},`, 1) + "}"
	if got := d.Reasons[0].Message; got != clip(seen, maxMessageBytes) {
		t.Errorf("the policy saw\n%s\nwant\n%s", got, seen)
	}
	sameJSON(t, d.Input, "{"+strings.Replace(rest, "%s", "", 1)+"}")
}

// What is unknown is absent, and lists and maps are there though empty.
func TestInputWithoutOptionalParts(t *testing.T) {
	p := testPlugin()
	p.Signer, p.TrustedBy = "", "pin"
	p.Effective.Hosts, p.Effective.Paths, p.Effective.Commands = nil, nil, nil
	o := options(t, `
		allow contains "absent" if {
			not input.tool.signer
			not input.run.principal
			not input.run.agent
			not input.approval
			input.tool.trusted_by == "pin"
			[] == input.tool.capabilities.hosts
			{} == input.tool.capabilities.paths
			{} == input.tool.annotations
			{} == input.run.labels
			{} == input.history.run
		}`)
	snap := snapshot(t, p)
	o.Tools = tools(snap)
	q := query("mute", `{}`)
	q.Run = &batch.Run{ID: "r1"}
	if d := decide(t, open(t, o), q); d.Outcome != "allow" {
		t.Errorf("got %+v of %s", d.Reasons, d.Input)
	} else if strings.Contains(string(d.Input), "null") {
		t.Errorf("the input has a null: %s", d.Input)
	}
}

func sameJSON(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
