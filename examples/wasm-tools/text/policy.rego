# The text tools only compute: any run may call them, except with a very long text.
package awaken.policy

allow contains "text tools only compute" if input.tool.plugin == "text"

block contains "the text is longer than a million characters: split it" if {
	input.tool.plugin == "text"
	some value in input.call.arguments
	is_string(value)
	count(value) > 1000000
}
