# The base policy of the host. It turns what operators write in package
# awaken.policy into one decision per tool call:
#
#   block > require_confirmation > schedule > set_result > allow
#
# and blocks when no rule matches, when an entry has a shape that is not
# described in shape.rego, and when two answers contradict each other.
package awaken.gate

import data.awaken.gate.shape
import data.awaken.policy

# The outcome is chosen before anything is put together, so that a part that
# turns out undefined makes the decision undefined, which blocks in the host,
# and can never let a weaker outcome through.
outcome := "block" if {
	count(objections) > 0
} else := "require_confirmation" if {
	count(confirmations) > 0
	not input.approval
} else := "schedule" if {
	count(schedules) > 0
	not input.approval
} else := "set_result" if {
	count(answers) > 0
} else := "allow" if {
	count(allows | approvals) > 0
} else := "block"

decision := {
	"outcome": outcome,
	"reasons": sort(objections),
} if {
	outcome == "block"
	count(objections) > 0
}

decision := {
	"outcome": outcome,
	"reasons": [{"code": "no_rule", "message": "no policy rule allows this call"}],
} if {
	outcome == "block"
	count(objections) == 0
}

decision := {
	"outcome": outcome,
	"reasons": sort({r | some c in confirmations; r := confirmation_reason(c)}),
	"confirmation": confirmation,
} if {
	outcome == "require_confirmation"
}

decision := {
	"outcome": outcome,
	"reasons": sort({r | some s in schedules; r := schedule_reason(s)}),
	"at_ns": max([t | some s in schedules; t := shape.due_ns(s)]),
} if {
	outcome == "schedule"
}

decision := {
	"outcome": outcome,
	"reasons": sort({r | some e in results; r := result_reason(e)}),
	"result": answer,
} if {
	outcome == "set_result"
	some answer in answers
}

decision := {
	"outcome": outcome,
	"reasons": sort(allows | approvals),
	"grants": grants,
} if {
	outcome == "allow"
}

objections := (defects | blocks) | stuck

# What operators wrote. An entry that has no proper shape has no counterpart
# here, which is how defects finds it. A rule nobody wrote is empty.
allows := {r | some e in shape.entries(policy.allow); r := shape.reason("allow", e)}

blocks := {r | some e in shape.entries(policy.block); r := shape.reason("block", e)}

confirmations := [c | some e in shape.entries(policy.require_confirmation); c := shape.confirmation(e)]

schedules := [s | some e in shape.entries(policy.schedule); s := shape.schedule(e)]

results := [r | some e in shape.entries(policy.set_result); r := shape.result(e)]

grants := [g | some e in shape.entries(policy.grant); g := shape.grant(e)]

answers := {a | some e in results; a := shape.answer(e)}

# Defects of the policy show for some inputs only. They block whatever else
# matched: a policy that cannot be read is not half obeyed.
defects contains odd("allow", "a reason (string) or {\"code\", \"message\"}") if {
	some e in shape.entries(policy.allow)
	not shape.reason("allow", e)
}

defects contains odd("block", "a reason (string) or {\"code\", \"message\"}") if {
	some e in shape.entries(policy.block)
	not shape.reason("block", e)
}

defects contains odd("require_confirmation", "a prompt (string) or {\"prompt\", \"approvers\", \"quorum\", \"timeout\", \"reason\"}") if {
	count(shape.entries(policy.require_confirmation)) != count(confirmations)
}

defects contains odd("schedule", "{\"at\" or \"after\", \"reason\"}, at an RFC 3339 time or nanoseconds since 1970, after a duration such as \"10m\"") if {
	count(shape.entries(policy.schedule)) != count(schedules)
}

defects contains odd("set_result", "{one of \"text\", \"json\", \"content\"; \"is_error\", \"reason\"}") if {
	count(shape.entries(policy.set_result)) != count(results)
}

defects contains odd("grant", "{\"hosts\", \"paths\", \"commands\", \"timeout\", \"memory_mib\"}, at least one of them") if {
	count(shape.entries(policy.grant)) != count(grants)
}

defects contains {
	"code": "conflict",
	"message": sprintf("set_result rules give %d different answers", [count(answers)]),
} if {
	count(answers) > 1
}

odd(rule, want) := {
	"code": "odd_shape",
	"message": sprintf("an entry of %s is not %s", [rule, want]),
}

# The question asked of people. Several rules make one question: every prompt is
# shown, and whoever decides must satisfy all of them.
confirmation.prompt := concat("\n", prompts) if count(prompts) > 0

confirmation.prompt := sprintf("May %s be called?", [input.tool.id]) if count(prompts) == 0

confirmation.quorum := quorum

confirmation.approvers := sort(approvers) if count(approver_lists) > 0

confirmation.timeout_ns := min(timeouts) if count(timeouts) > 0

prompts := {c.prompt | some c in confirmations}

approver_lists := {s | some c in confirmations; c.approvers; s := {a | some a in c.approvers}}

approvers := intersection(approver_lists)

quorum := max({1} | {c.quorum | some c in confirmations})

timeouts := {t | some c in confirmations; t := shape.duration_ns(c.timeout)}

# Who submitted a call may not approve it. Names that differ in case only are one
# person, as they are to the host.
possible_approvers := {lower(a) | some a in approvers} - {p | p := lower(input.run.principal)}

# A question nobody can answer, and one that cannot be asked any more, block.
stuck contains {
	"code": "no_approver",
	"message": sprintf("confirmation needs %d approvals and the rules leave %d who may approve", [quorum, count(possible_approvers)]),
} if {
	count(confirmations) > 0
	not input.approval
	count(approver_lists) > 0
	count(possible_approvers) < quorum
}

stuck contains {
	"code": "confirmation_missing",
	"message": "policy requires a confirmation now, and a call that has already waited for something else cannot ask for one",
} if {
	count(confirmations) > 0
	input.approval
	input.approval.kind != "permission"
}

stuck contains {
	"code": "approval_insufficient",
	"message": "the approval given does not satisfy the confirmation that policy requires now",
} if {
	count(confirmations) > 0
	input.approval.kind == "permission"
	not satisfied
}

satisfied if {
	count(approver_lists) == 0
	quorum == 1
}

satisfied if {
	count(approver_lists) == 0
	count({b | some b in input.approval.by}) >= quorum
}

satisfied if count({b | some b in input.approval.by; b in approvers}) >= quorum

# After the wait what was waited for counts as a rule that allows, if policy
# still asks for it.
approvals contains {"code": "approved", "message": approved_by} if {
	input.approval.kind == "permission"
	count(confirmations) > 0
}

approvals contains {"code": "schedule_due", "message": "the scheduled time has come"} if {
	input.approval.kind == "schedule"
	count(schedules) > 0
}

default approved_by := "approved"

approved_by := concat(" ", ["approved by", concat(", ", sort(input.approval.by))]) if count(input.approval.by) > 0

confirmation_reason(c) := shape.reason("require_confirmation", c.reason)

confirmation_reason(c) := shape.reason("require_confirmation", object.get(c, "prompt", "")) if not c.reason

schedule_reason(s) := shape.reason("schedule", object.get(s, "reason", ""))

result_reason(e) := shape.reason("set_result", object.get(e, "reason", ""))
