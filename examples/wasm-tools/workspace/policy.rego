# Files of a run may be read and written; its secrets by convention may not be read.
package awaken.policy

allow contains "files stay in the sandbox of their run" if input.tool.plugin == "workspace"

block contains "a file of keys is not for the model" if {
	input.tool.plugin == "workspace"
	endswith(lower(input.call.arguments.path), ".key")
}
