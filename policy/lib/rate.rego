# How often something was called before this call.
package awaken.lib.rate

import data.awaken.lib

# run(tool): how often in this run.
run(tool) := input.history.run[tool] if {
	is_string(tool)
} else := 0 if {
	is_string(tool)
} else := lib.fail(sprintf("rate.run: %v is not the name of a tool", [tool]))

# run_total: how often any tool in this run.
run_total := sum([n | some n in input.history.run])

# principal(window, tool): how often in all runs of this principal in the last "1m",
# "10m", "1h" or "24h".
principal(window, tool) := counts(window)[tool] if {
	is_string(tool)
} else := 0 if {
	counts(window)
	is_string(tool)
} else := lib.fail(sprintf("rate.principal: %v is not the name of a tool", [tool]))

# principal_total(window): how often any tool in all runs of this principal.
principal_total(window) := sum([n | some n in counts(window)])

counts(window) := input.history.principal[window] if {
	window in {"1m", "10m", "1h", "24h"}
} else := lib.fail(sprintf("rate: there are no counts for the window %v: windows are 1m, 10m, 1h and 24h, under input.history.principal", [window]))
