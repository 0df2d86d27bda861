# Patterns run only inside a sandbox; a large text waits for a quieter time.
package awaken.policy

allow contains "patterns run in a sandbox" if {
	input.tool.plugin == "pattern"
	input.tool.target == "sandbox"
}

schedule contains {"after": "10m"} if {
	input.tool.plugin == "pattern"
	count(input.call.arguments.text) > 100000
}
