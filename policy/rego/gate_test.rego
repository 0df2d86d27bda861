package awaken.gate_test

import data.awaken.gate

ask := {
	"tool": {"id": "notes__save"},
	"run": {"principal": "alice"},
	"now_ns": 1751293800000000000,
}

back(kind, by) := object.union(ask, {"approval": {"kind": kind, "by": by}})

test_no_rule_blocks if {
	gate.decision == {
		"outcome": "block",
		"reasons": [{"code": "no_rule", "message": "no policy rule allows this call"}],
	} with input as ask
}

test_allow if {
	gate.decision == {
		"outcome": "allow",
		"reasons": [{"code": "allow", "message": "a"}, {"code": "b"}],
		"grants": [],
	} with input as ask
		with data.awaken.policy.allow as {"a", {"code": "b"}}
}

test_grants_are_normal if {
	d := gate.decision with input as ask
		with data.awaken.policy.allow as {"a"}
		with data.awaken.policy.grant as {{"hosts": {"b", "a"}, "timeout": "2s", "memory_mib": 16}}
	d.grants == [{"hosts": ["a", "b"], "timeout_ns": 2000000000, "memory_mib": 16}]
}

test_block_wins if {
	gate.decision.outcome == "block" with input as ask
		with data.awaken.policy.allow as {"a"}
		with data.awaken.policy.block as {"b"}
		with data.awaken.policy.require_confirmation as {"c"}
		with data.awaken.policy.schedule as {{"after": "1m"}}
		with data.awaken.policy.set_result as {{"text": "t"}}
}

test_confirmation_wins_over_schedule if {
	gate.decision.outcome == "require_confirmation" with input as ask
		with data.awaken.policy.require_confirmation as {"c"}
		with data.awaken.policy.schedule as {{"after": "1m"}}
}

test_schedule_wins_over_result if {
	d := gate.decision with input as ask
		with data.awaken.policy.schedule as {{"after": "1m"}, {"after": "30s"}}
		with data.awaken.policy.set_result as {{"text": "t"}}
	d == {
		"outcome": "schedule",
		"reasons": [{"code": "schedule"}],
		"at_ns": 1751293860000000000,
	}
}

test_result_wins_over_allow if {
	gate.decision.outcome == "set_result" with input as ask
		with data.awaken.policy.set_result as {{"text": "t"}}
		with data.awaken.policy.allow as {"a"}
}

test_odd_entry_blocks_beside_allow if {
	d := gate.decision with input as ask
		with data.awaken.policy.allow as {"a", 1}
	d.outcome == "block"
	d.reasons[0].code == "odd_shape"
}

test_conflict_blocks if {
	d := gate.decision with input as ask
		with data.awaken.policy.set_result as {{"text": "t"}, {"text": "u"}}
	d.reasons[0].code == "conflict"
}

# A part that cannot be put together must not let a weaker outcome through.
test_missing_time_is_undefined if {
	not gate.decision with input as object.remove(ask, {"now_ns"})
		with data.awaken.policy.schedule as {{"after": "1m"}}
		with data.awaken.policy.allow as {"a"}
}

test_approval_counts_as_allow if {
	d := gate.decision with input as back("permission", ["bob"])
		with data.awaken.policy.require_confirmation as {"c"}
	d.outcome == "allow"
	d.reasons == [{"code": "approved", "message": "approved by bob"}]
}

test_due_counts_as_allow if {
	gate.decision.outcome == "allow" with input as back("schedule", [])
		with data.awaken.policy.schedule as {{"after": "1m"}}
}

test_due_is_no_approval if {
	d := gate.decision with input as back("schedule", [])
		with data.awaken.policy.require_confirmation as {"c"}
		with data.awaken.policy.allow as {"a"}
	d.outcome == "block"
	d.reasons[0].code == "confirmation_missing"
}
