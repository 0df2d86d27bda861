package policy

import (
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Tools that host.toml declares are decided on like any others, by what the
// operator said of them.
func TestHostTools(t *testing.T) {
	client, err := plugins.NewClientPlugin([]plugins.HostTool{{ID: "ask_user", Annotations: map[string]any{"read_only": true, "weight": 2}}})
	if err != nil {
		t.Fatal(err)
	}
	delegate, err := plugins.NewDelegatePlugin([]plugins.HostTool{{ID: "hand_over"}})
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshot(t, client, delegate)
	o := options(t, `
allow contains "asks" if {
	input.tool.plugin == "client"
	input.tool.target == "client"
	input.tool.trusted_by == "host.toml"
	input.tool.annotations.read_only
	input.tool.annotations.weight == 2
	input.call.arguments.question == "why?"
}
block contains "alone" if {
	input.tool.plugin == "delegate"
	input.tool.target == "brain"
	count(input.call.arguments.calls) > 1
}
grant contains {"timeout": "5s"} if input.tool.id == "ask_user"`)
	o.Tools = func() *plugins.Snapshot { return snap }
	g, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool    batch.ToolID
		args    string
		outcome batch.Outcome
		message string
	}{
		{"ask_user", `{"question":"why?"}`, batch.OutcomeAllow, "asks"},
		{"hand_over", `{"calls":[{"id":"a","tool":"ask_user"},{"id":"b","tool":"ask_user"}]}`, batch.OutcomeBlock, "alone"},
	} {
		tool, _ := snap.Tool(c.tool)
		d, err := g.Decide(t.Context(), &batch.Query{
			Call: &batch.Call{Run: "r", Step: 1, ID: "c", Tool: c.tool, Arguments: []byte(c.args)},
			Tool: tool.Descriptor(), Run: &batch.Run{ID: "r"}, Now: testNow,
		})
		if err != nil || d.Outcome != c.outcome || d.Reasons[0].Message != c.message {
			t.Errorf("%s: %+v, err %v", c.tool, d, err)
		}
	}
}
