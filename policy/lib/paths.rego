# Paths, compared as written: nothing is looked up, links are not followed. Doubled
# slashes, "." and a slash at the end make no difference. A path with ".." in it, with
# a backslash or with a control character is not plain. Absolute and relative paths
# cannot be compared.
package awaken.lib.paths

import data.awaken.lib

# plain(path): it can be compared.
plain(path) if {
	is_string(path)
	path != ""
	not regex.match(`(^|/)\.\.(/|$)|[\x00-\x1f\x7f\\]`, path)
} else := false

# within(path, folder): it is the folder, or something in it.
within(path, folder) := answer if {
	p := clean(path)
	f := clean(folder)
	same_kind(p, f)
	answer := prefix(p, f)
} else := lib.fail(sprintf("paths.within: one of %v and %v is absolute, the other is not", [path, folder]))

# within_any(path, folders): it is within one of a list or set.
within_any(path, folders) := true in {a | some f in folders; a := within(path, f)}

# matches(path, pattern): it matches a glob: * and ? stop at a slash, ** does not,
# {a,b} is one of several, [a-z] a character of a range. A pattern that starts with **
# goes with absolute and relative paths; "**/*.pem" is any such file in a folder.
matches(path, pattern) := answer if {
	p := clean(path)
	may_match(p, pattern)
	answer := glob.match(pattern, ["/"], p)
} else := lib.fail(sprintf("paths.matches: one of %v and %v is absolute, the other is not", [path, pattern]))

# matches_any(path, patterns): it matches one of a list or set.
matches_any(path, patterns) := true in {a | some p in patterns; a := matches(path, p)}

# clean(path): without doubled slashes, "." and a slash at the end.
clean(path) := cleaned if {
	plain(path)
	parts := [p | some p in split(path, "/"); not p in {"", "."}]
	cleaned := concat("", [root(path), concat("/", parts)])
} else := lib.fail(sprintf("paths: %v is not a plain path", [path]))

root(path) := "/" if {
	startswith(path, "/")
} else := ""

may_match(_, pattern) if startswith(pattern, "**")

may_match(p, pattern) if {
	not startswith(pattern, "**")
	same_kind(p, pattern)
}

same_kind(a, b) if startswith(a, "/") == startswith(b, "/")

prefix(_, "/")

prefix(_, "")

prefix(path, folder) if {
	not folder in {"/", ""}
	startswith(concat("", [path, "/"]), concat("", [folder, "/"]))
} else := false if not folder in {"/", ""}
