# What the scenes ask of policy, by an argument of the call.
package awaken.policy

allow contains "it did not ask for anything else" if not input.call.arguments.want

block contains {"code": "scene", "message": "the scene asks for it"} if input.call.arguments.want == "block"

set_result contains {"text": "answered by policy"} if input.call.arguments.want == "answer"

require_confirmation contains {"prompt": "Shall it run?"} if input.call.arguments.want == "confirm"

schedule contains {"after": "40ms"} if input.call.arguments.want == "later"
