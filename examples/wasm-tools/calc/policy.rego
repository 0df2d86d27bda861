# Arithmetic is free. An expression without a single digit or name is answered here.
package awaken.policy

allow contains "calc only computes" if input.tool.plugin == "calc"

set_result contains {"text": "There is nothing to evaluate."} if {
	input.tool.id == "calc__evaluate"
	not regex.match(`[0-9A-Za-z]`, input.call.arguments.expression)
}
