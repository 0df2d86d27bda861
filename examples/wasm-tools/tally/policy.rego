# Counting is free; throwing counts away, or counting very many at once, needs a person.
package awaken.policy

allow contains "the tally changes run state only" if input.tool.plugin == "tally"

require_confirmation contains {"prompt": "Throw the tally away?"} if input.tool.id == "tally__reset"

require_confirmation contains {"prompt": sprintf("Count %v of %v at once?", [amount, input.call.arguments.name])} if {
	input.tool.id == "tally__add"
	amount := object.get(input.call.arguments, "amount", 1)
	abs(amount) >= 1000
}
