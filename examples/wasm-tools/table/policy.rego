# A blank table is answered here: the plugin never runs for it.
package awaken.policy

allow contains "tables only compute" if input.tool.plugin == "table"

set_result contains {"text": "The table is empty."} if {
	input.tool.plugin == "table"
	trim_space(input.call.arguments.csv) == ""
}
