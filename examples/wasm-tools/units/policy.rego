# Converting is free. A unit to itself is answered here, without running the plugin.
package awaken.policy

allow contains "units only compute" if input.tool.plugin == "units"

set_result contains {"text": sprintf("%v %v", [input.call.arguments.value, input.call.arguments.from])} if {
	input.tool.id == "units__convert"
	input.call.arguments.from == input.call.arguments.to
}
