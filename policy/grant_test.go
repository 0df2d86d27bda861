package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestGrants(t *testing.T) {
	tests := []struct {
		name   string
		policy string
		want   *batch.Grant
		note   string // what of a wider grant is named; empty: no note
	}{
		{"none", ``, nil, ""},
		{"false", `grant := false`, nil, ""},
		{"everything narrower", `grant contains {"hosts": ["api.example.com:443"], "paths": {"/workspace": "ro"}, "commands": {"git"}, "timeout": "2s", "memory_mib": 16}`,
			&batch.Grant{Hosts: []string{"api.example.com:443"}, Paths: map[string]string{"/workspace": "ro"}, Commands: []string{"git"}, Timeout: 2 * time.Second, MemoryMiB: 16}, ""},
		{"one thing leaves the others", `grant contains {"memory_mib": 16}`, &batch.Grant{MemoryMiB: 16}, ""},
		{"nothing at all", `grant contains {"hosts": [], "paths": {}, "commands": []}`,
			&batch.Grant{Hosts: []string{}, Paths: map[string]string{}, Commands: []string{}}, ""},
		{"hosts by another case", `grant contains {"hosts": ["API.example.com:443"]}`, &batch.Grant{Hosts: []string{"api.example.com:443"}}, ""},
		{"an unknown host", `grant contains {"hosts": ["evil.example.com", "api.example.com:443"]}`, &batch.Grant{Hosts: []string{"api.example.com:443"}}, "host evil.example.com"},
		{"a host without the port that is its scheme's", `grant contains {"hosts": ["https://api.example.com."]}`, &batch.Grant{Hosts: []string{"api.example.com:443"}}, ""},
		{"a host with another port", `grant contains {"hosts": ["api.example.com:8443"]}`, &batch.Grant{Hosts: []string{}}, "host api.example.com:8443"},
		{"a host without TLS", `grant contains {"hosts": ["http://api.example.com:443"]}`, &batch.Grant{Hosts: []string{}}, "host http://api.example.com:443"},
		{"a pattern wider than the plugin's host", `grant contains {"hosts": ["*.example.com"]}`, &batch.Grant{Hosts: []string{"api.example.com:443"}}, "host *.example.com"},
		{"an unknown command", `grant contains {"commands": ["rm"]}`, &batch.Grant{Commands: []string{}}, "command rm"},
		{"a writable read-only path", `grant contains {"paths": {"/data": "rw"}}`, &batch.Grant{Paths: map[string]string{"/data": "ro"}}, "path /data rw"},
		{"an unknown path", `grant contains {"paths": {"/etc": "ro", "/workspace": "rw"}}`, &batch.Grant{Paths: map[string]string{"/workspace": "rw"}}, "path /etc"},
		{"a path above", `grant contains {"paths": {"/": "rw"}}`, &batch.Grant{Paths: map[string]string{}}, "path /"},
		{"more memory", `grant contains {"memory_mib": 4096}`, &batch.Grant{MemoryMiB: 64}, "memory 4096 MiB"},
		{"more time", `grant contains {"timeout": "1h"}`, &batch.Grant{Timeout: 5 * time.Second}, "timeout 1h0m0s"},
		{"two intersect", `
			grant contains {"hosts": ["api.example.com:443", "db.example.com:5432"], "paths": {"/workspace": "rw", "/data": "ro"}, "memory_mib": 32, "timeout": "4s"}
			grant contains {"hosts": ["db.example.com:5432"], "paths": {"/workspace": "ro"}, "memory_mib": 48, "timeout": "3s", "commands": ["git"]}`,
			&batch.Grant{Hosts: []string{"db.example.com:5432"}, Paths: map[string]string{"/workspace": "ro"}, Commands: []string{"git"}, MemoryMiB: 32, Timeout: 3 * time.Second}, ""},
		{"two have nothing in common", `
			grant contains {"hosts": ["api.example.com:443"], "paths": {"/workspace": "rw"}, "commands": ["git"]}
			grant contains {"hosts": ["db.example.com:5432"], "paths": {"/data": "ro"}, "commands": ["make"]}`,
			&batch.Grant{Hosts: []string{}, Paths: map[string]string{}, Commands: []string{}}, ""},
		{"an empty one stays empty", `
			grant contains {"hosts": []}
			grant contains {"hosts": ["api.example.com:443"]}`, &batch.Grant{Hosts: []string{}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, open(t, options(t, allowAll+tt.policy)), query("read", `{}`))
			if d.Outcome != batch.OutcomeAllow {
				t.Fatalf("got %s with %+v", d.Outcome, d.Reasons)
			}
			if !reflect.DeepEqual(d.Grant, tt.want) {
				t.Errorf("got %+v, want %+v", d.Grant, tt.want)
			}
			last := d.Reasons[len(d.Reasons)-1]
			if (last.Code == ReasonGrantNarrowed) != (tt.note != "") || !strings.HasSuffix(last.Message, tt.note) {
				t.Errorf("got %+v, want a note on %q", d.Reasons, tt.note)
			}
		})
	}
}

// A grant alone lets nothing through, and goes with no other outcome.
func TestGrantIsNoAllow(t *testing.T) {
	grant := "grant contains {\"memory_mib\": 16}\n"
	for rules, want := range map[string]batch.Outcome{
		"":                                    batch.OutcomeBlock,
		`block contains "x"`:                  batch.OutcomeBlock,
		`require_confirmation contains "x"`:   batch.OutcomeRequireConfirmation,
		`schedule contains {"after": "1m"}`:   batch.OutcomeSchedule,
		`set_result contains {"text": "txt"}`: batch.OutcomeSetResult,
	} {
		d := decide(t, open(t, options(t, grant+rules)), query("read", `{}`))
		if d.Outcome != want || d.Grant != nil {
			t.Errorf("%s: got %s with grant %+v", rules, d.Outcome, d.Grant)
		}
	}
	q := query("read", `{}`)
	q.Approval = approval(batch.TicketPermission, "bob")
	if d := decide(t, open(t, options(t, grant+`require_confirmation contains "x"`)), q); d.Grant == nil || d.Grant.MemoryMiB != 16 {
		t.Errorf("after an approval: got %s with grant %+v", d.Outcome, d.Grant)
	}
}
