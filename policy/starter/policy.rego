# Which tool calls may run. This file is yours: change it, add files beside it,
# and look at the result with
#
#     awaken-host policy check
#     awaken-host policy test
#
# For every call the host asks the rules below, written in Rego
# (https://www.openpolicyagent.org/docs/policy-language). Each rule adds a reason
# to a set when everything between its braces is true:
#
#     block                  the call does not run
#     require_confirmation   the call waits until a person approves it
#     schedule               the call waits until a time
#     set_result             policy answers, the tool does not run
#     allow                  the call runs
#
# When several match, the one higher in this list wins. When none matches, the call
# is blocked. A mistake in a policy blocks too; it never lets a call through.
#
# What a rule can look at:
#
#     input.tool      id, plugin, version, digest, signer, trusted_by, target,
#                     capabilities (hosts, paths, commands, secrets, memory_mib,
#                     timeout_ms) and annotations: from the signed manifest
#     input.call      id, operation, arguments: what the model wrote
#     input.run       id, principal, agent, step, labels
#     input.history   run: how often each tool was called in this run; principal: the
#                     same over all runs of a principal, in the last 1m, 10m, 1h, 24h
#     input.approval  kind, by, at, requested: only when a call comes back from
#                     waiting. An approval counts as allow.
#     input.now       the time, also in nanoseconds as input.now_ns
#
# A name that is not there is refused; "awaken-host policy schema" prints them all.
# Helpers for hosts, paths, commands, rates and business hours are in data.awaken.lib.
package awaken.policy

# Tools that only read may run.
allow contains "the tool only reads" if input.tool.annotations.read_only == true

# Tools that destroy something wait for a person, who has an hour to decide. More
# can be said here: "approvers": ["alice", "bob"], "quorum": 2.
require_confirmation contains {
	"prompt": sprintf("%s destroys or overwrites something. Call it?", [input.tool.id]),
	"timeout": "1h",
} if {
	input.tool.annotations.destructive == true
}

# Tools whose manifest says that they change something wait for a person.
require_confirmation contains sprintf("%s changes something. Call it?", [input.tool.id]) if {
	input.tool.annotations.read_only == false
	not destructive
}

# So do tools that say nothing about themselves but may write files.
require_confirmation contains sprintf("%s may write files. Call it?", [input.tool.id]) if {
	not says_what_it_does
	some mode in input.tool.capabilities.paths
	mode == "rw"
}

# Nothing that destroys runs in production, whoever approves it. Labels come with
# the run, from whoever starts it.
block contains {
	"code": "production",
	"message": "destructive tools do not run in production",
} if {
	input.run.labels.environment == "production"
	destructive
}

# Everything else is blocked, since no rule above matches.

destructive if input.tool.annotations.destructive == true

says_what_it_does if is_boolean(input.tool.annotations.read_only)

says_what_it_does if destructive
