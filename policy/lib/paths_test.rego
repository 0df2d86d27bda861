package awaken.lib.paths_test

import data.awaken.lib.paths

test_within if {
	every c in [
		["/workspace", "/workspace"],
		["/workspace/a/b", "/workspace"],
		["/workspace/a/b", "/workspace/"],
		["//workspace/./a//b/", "/workspace/a"],
		["/workspace/..a", "/workspace"],
		["/workspace/a..", "/workspace"],
		["/etc", "/"],
		["/", "/"],
		["notes/today.md", "notes"],
		["./notes/today.md", "notes/"],
		["notes", "."],
	] {
		paths.within(c[0], c[1]) == true
	}
}

test_not_within if {
	every c in [
		["/workspace2", "/workspace"],
		["/work", "/workspace"],
		["/", "/workspace"],
		["/Workspace/a", "/workspace"],
		["/a/workspace", "/workspace"],
		["notes2/a", "notes"],
	] {
		paths.within(c[0], c[1]) == false
	}
}

test_within_any if {
	paths.within_any("/tmp/a", ["/workspace", "/tmp"]) == true
	paths.within_any("/etc/a", ["/workspace", "/tmp"]) == false
	paths.within_any("/etc/a", []) == false
	paths.within_any("/tmp/a", {"/workspace", "/tmp"}) == true
}

test_matches if {
	every c in [
		["/workspace/a.md", "/workspace/*.md"],
		["/workspace//./a.md", "/workspace/*.md"],
		["/workspace/a/b/c.md", "/workspace/**.md"],
		["/workspace/a/b/c.md", "/workspace/**/c.md"],
		["/home/x/.ssh/id_rsa", "/home/*/.ssh/**"],
		["a.pem", "*.{pem,key}"],
		["/v1/x", "/v[0-9]/x"],
		["/home/x/a.pem", "**/*.pem"],
		["x/a.pem", "**/*.pem"],
	] {
		paths.matches(c[0], c[1]) == true
	}
}

test_does_not_match if {
	every c in [
		["/workspace/a/b.md", "/workspace/*.md"],
		["/workspace/a.txt", "/workspace/*.md"],
		["/x/workspace/a.md", "/workspace/*.md"],
		["/workspace/a.md.sh", "/workspace/*.md"],
	] {
		paths.matches(c[0], c[1]) == false
	}
}

test_matches_any if {
	paths.matches_any("/w/a.key", ["/w/*.pem", "/w/*.key"]) == true
	paths.matches_any("/w/a.txt", ["/w/*.pem", "/w/*.key"]) == false
}

test_plain if {
	every p in ["/", "/a/b", "a", "a..b", "...", "/a/.b", "a b", "ä"] {
		paths.plain(p) == true
	}
	every p in ["", "..", "../a", "/a/..", "/a/../b", "a\\b", "a\nb", "a\u0000", 5, null, ["/a"], {}] {
		paths.plain(p) == false
	}
}
