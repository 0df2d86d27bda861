# Commands, word by word. A command is a list of words, as a program gets them, or a
# line. A line goes to a shell at some time, so that only characters that mean nothing
# to shells are plain in it: letters, digits, spaces and @ % + = : , . / _ - (and no
# quotes: there is no way to know how they would be taken apart). In a list every text
# is plain.
#
# A pattern is words with spaces between them. "*" as its last word stands for any
# number of further words, also none; within it, for one word. In a word * stands for any
# characters. So "git status *" is git status with whatever comes after it, and not
# "git -C /etc status". What comes after may still be an option that runs something
# else, as with find or tar: then name each word.
package awaken.lib.commands

import data.awaken.lib

# plain(command): it can be taken apart without doubt.
plain(command) if {
	is_string(command)
	regex.match(`^ *[A-Za-z0-9@%+=:,./_-]+( +[A-Za-z0-9@%+=:,./_-]+)* *$`, command)
} else if {
	is_array(command)
	count(command) > 0
	every w in command {
		is_string(w)
	}
	command[0] != ""
} else := false

# words(command): the words of a command that is plain.
words(command) := ws if {
	plain(command)
	is_string(command)
	ws := [w | some w in split(command, " "); w != ""]
} else := command if {
	plain(command)
} else := lib.fail(sprintf("commands: %v is not a plain command", [command]))

# matches(command, pattern): it has the words of the pattern.
matches(command, pattern) := answer if {
	ws := words(command)
	ps := pattern_words(pattern)
	answer := fits(ws, ps)
}

# matches_any(command, patterns): it matches one of a list or set.
matches_any(command, patterns) := true in {a | some p in patterns; a := matches(command, p)}

pattern_words(pattern) := ps if {
	is_string(pattern)
	ps := [w | some w in split(pattern, " "); w != ""]
	count(ps) > 0
	ps[0] != "*"
} else := lib.fail(sprintf("commands: %v is not a pattern, which begins with the name of a program", [pattern]))

fits(ws, ps) if {
	last := count(ps) - 1
	ps[last] == "*"
	count(ws) >= last
	every i, p in array.slice(ps, 0, last) {
		word(ws[i], p)
	}
} else if {
	ps[count(ps) - 1] != "*"
	count(ws) == count(ps)
	every i, p in ps {
		word(ws[i], p)
	}
} else := false

word(w, p) if {
	not contains(p, "*")
	w == p
}

word(w, p) if {
	contains(p, "*")
	regex.match(concat("", ["(?s)^", concat(".*", [literal(s) | some s in split(p, "*")]), "$"]), w)
}

literal(s) := regex.replace(s, `[^A-Za-z0-9_]`, `\$0`) if s != ""

literal("") := ""
