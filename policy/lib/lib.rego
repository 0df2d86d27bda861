# What the helpers below share. Policies import the packages beside it:
#
#     import data.awaken.lib.commands
#     import data.awaken.lib.hosts
#     import data.awaken.lib.hours
#     import data.awaken.lib.paths
#     import data.awaken.lib.rate
#
# A helper answers true or false. Given something that it cannot read without doubt
# it answers neither: the evaluation fails, and the call is blocked. Otherwise a rule
# to block would be passed by an odd spelling, or one to allow by a "not". Each package
# has plain(…), which says whether a value can be read, for rules that would rather ask.
package awaken.lib

# fail(message) ends the evaluation with an error that has the message in it.
fail(message) := time.parse_duration_ns(concat("", ["awaken.lib: ", message]))
