# Tests of policy.rego. "awaken-host policy test" runs them. A rule named test_… passes when
# everything between its braces is true.
package awaken.policy_test

import data.awaken.policy

tool(annotations, paths) := {
	"tool": {
		"id": "notes__save",
		"annotations": annotations,
		"capabilities": {"paths": paths},
	},
	"run": {"labels": {}},
}

test_reading_is_allowed if {
	count(policy.allow) == 1 with input as tool({"read_only": true}, {})
	count(policy.require_confirmation) == 0 with input as tool({"read_only": true}, {})
}

test_destroying_is_confirmed_within_an_hour if {
	confirmations := policy.require_confirmation with input as tool({"destructive": true}, {})
	count(confirmations) == 1
	some c in confirmations
	c.timeout == "1h"
}

# A manifest may contradict itself; then the stricter rule wins.
test_destroying_is_confirmed_even_if_it_claims_to_read if {
	confirmations := policy.require_confirmation with input as tool({"read_only": true, "destructive": true}, {})
	count(confirmations) == 1
}

test_destroying_is_asked_once if {
	confirmations := policy.require_confirmation with input as tool({"read_only": false, "destructive": true}, {"/workspace": "rw"})
	count(confirmations) == 1
}

test_writing_is_confirmed if {
	confirmations := policy.require_confirmation with input as tool({"read_only": false}, {"/workspace": "rw"})
	confirmations == {"notes__save changes something. Call it?"}
	count(policy.allow) == 0 with input as tool({"read_only": false}, {})
}

test_unannotated_with_writable_files_is_confirmed if {
	confirmations := policy.require_confirmation with input as tool({}, {"/data": "ro", "/workspace": "rw"})
	confirmations == {"notes__save may write files. Call it?"}
}

test_a_destructive_tool_is_asked_as_such_only if {
	confirmations := policy.require_confirmation with input as tool({"destructive": true}, {"/workspace": "rw"})
	count(confirmations) == 1
}

test_a_reading_tool_may_have_writable_files if {
	count(policy.require_confirmation) == 0 with input as tool({"read_only": true}, {"/workspace": "rw"})
}

test_anything_else_is_not_let_through if {
	every annotations in [{}, {"read_only": "yes"}, {"title": "Save"}] {
		count(policy.allow) == 0 with input as tool(annotations, {"/data": "ro"})
		count(policy.require_confirmation) == 0 with input as tool(annotations, {"/data": "ro"})
	}
}

in_production(call) := json.patch(call, [{"op": "add", "path": "/run/labels/environment", "value": "production"}])

test_destroying_in_production_is_blocked if {
	count(policy.block) == 1 with input as in_production(tool({"destructive": true}, {}))
	count(policy.block) == 0 with input as tool({"destructive": true}, {})
	count(policy.block) == 0 with input as in_production(tool({"read_only": true}, {}))
}
