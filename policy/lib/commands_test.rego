package awaken.lib.commands_test

import data.awaken.lib.commands

test_matches if {
	every c in [
		["git status", "git status *"],
		["git status", "git status"],
		["  git   status  ", "git status"],
		["git status -s src/", "git status *"],
		["git log --format=oneline", "git log --format=*"],
		["git log --format=", "git log --format=*"],
		["git push origin main", "git push * main"],
		["go1.26 test ./...", "go1.* test *"],
		["make", "make *"],
		["make", "make*"],
	] {
		commands.matches(c[0], c[1]) == true
	}
}

test_does_not_match if {
	every c in [
		["git status -s", "git status"],
		["git", "git status *"],
		["git -C /etc status", "git status *"],
		["git statusx", "git status *"],
		["FOO=bar git status", "git status *"],
		["/tmp/git status", "git status *"],
		["GIT status", "git status *"],
		["git push origin x main", "git push * main"],
		["git push main", "git push * main"],
		["gitXstatus", "git.status"],
	] {
		commands.matches(c[0], c[1]) == false
	}
}

# A list never meets a shell: a word is whatever it is.
test_lists if {
	commands.matches(["git", "commit", "-m", "a; rm -rf / $(x) \n"], "git commit -m *") == true
	commands.matches(["git", "log", "--format=a\nb"], "git log --format=*") == true
	commands.matches(["git", "status", ""], "git status *") == true
	commands.matches(["git status"], "git status") == false
	commands.matches(["git", "status; id"], "git status") == false
	commands.matches(["a.b+c"], "a.b+c") == true
	commands.matches(["a.b+cx"], "a.b+c*") == true
	commands.matches(["aXb+cx"], "a.b+c*") == false
}

test_plain if {
	every c in ["ls", "git status -s", "a/b-c_d:e,f@g%h+i=j"] {
		commands.plain(c) == true
	}
	every c in [
		"", " ", "ls;id", "ls|id", "ls&", "ls>x", "ls<x", "$(id)", "`id`", "ls\nid", "ls\tid", "ls\r", "echo $HOME", "ls *", "ls ?",
		"ls [a]", "ls {a,b}", "ls ~", "ls 'a b'", "ls \"a\"", "ls \\x", "ls #x", "!ls", "ls (x)", "l\u0000s", "ls\u00a0x", "ls\u2028id", "lş", "a^b",
	] {
		commands.plain(c) == false
	}
	every c in [5, null, true, {}, [], ["ls", 5], ["", "ls"]] {
		commands.plain(c) == false
	}
}

test_matches_any if {
	commands.matches_any("git diff", ["git status *", "git diff *"]) == true
	commands.matches_any("git push", ["git status *", "git diff *"]) == false
	commands.matches_any("git push", set()) == false
}
