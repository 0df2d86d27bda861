# The shapes that entries of operators' rules may have. Each function is
# undefined for any other shape, and the base policy then blocks.
package awaken.gate.shape

# A rule is a set of entries ("contains"), or true or false ("if"). Anything
# else counts as one entry that has no proper shape.
entries(rule) := rule if {
	is_set(rule)
} else := {""} if {
	rule == true
} else := set() if {
	rule == false
} else := {null}

# A reason is a text, which gets the rule's name as its code, or code and message.
reason(rule, "") := {"code": rule}

reason(rule, e) := {"code": rule, "message": e} if {
	is_string(e)
	e != ""
}

reason(_, e) := e if {
	is_object(e)
	e.code
	every k, v in e {
		reason_field(k, v)
	}
}

reason_field("code", v) if {
	is_string(v)
	regex.match(`^[a-z][a-z0-9_.-]{0,63}$`, v)
}

reason_field("message", v) if is_string(v)

# A confirmation is a prompt, or an object.
confirmation("") := {}

confirmation(e) := {"prompt": e} if {
	is_string(e)
	e != ""
}

confirmation(e) := e if {
	is_object(e)
	every k, v in e {
		confirmation_field(k, v)
	}
}

confirmation_field("prompt", v) if {
	is_string(v)
	v != ""
}

# An empty list could mean nobody or anybody, so it means nothing.
confirmation_field("approvers", v) if {
	names(v)
	count(v) > 0
	every n in v {
		person(n)
	}
}

confirmation_field("quorum", v) if {
	whole(v)
	v >= 1
	v <= 1000
}

confirmation_field("timeout", v) if duration_ns(v)

confirmation_field("reason", v) if reason("require_confirmation", v)

# A schedule has exactly one time.
schedule(e) := e if {
	is_object(e)
	count(object.keys(e) & {"at", "after"}) == 1
	every k, v in e {
		schedule_field(k, v)
	}
}

schedule_field("at", v) if time_ns(v)

schedule_field("after", v) if duration_ns(v)

schedule_field("reason", v) if reason("schedule", v)

due_ns(s) := time_ns(s.at)

due_ns(s) := input.now_ns + duration_ns(s.after)

# A result has exactly one kind of content.
result(e) := e if {
	is_object(e)
	count(object.keys(e) & {"text", "json", "content"}) == 1
	every k, v in e {
		result_field(k, v)
	}
}

result_field("text", v) if is_string(v)

result_field("json", _) := true

result_field("content", v) if {
	is_array(v)
	count(v) > 0
	every block in v {
		is_object(block)
		block.type in {"text", "image", "audio", "resource", "json"}
		count(object.keys(block) - {"type", "text", "data", "mime_type", "uri", "json"}) == 0
	}
}

result_field("is_error", v) if is_boolean(v)

result_field("reason", v) if reason("set_result", v)

# The answer of a result, without its reason: two rules may agree on an answer
# for different reasons.
answer(e) := {"content": content(e), "is_error": object.get(e, "is_error", false)}

content(e) := [{"type": "text", "text": e.text}]

content(e) := [{"type": "json", "json": e.json}]

content(e) := e.content

# A grant narrows at least one thing. Durations leave in nanoseconds.
grant(e) := g if {
	is_object(e)
	count(e) > 0
	g := {name: value | some k, v in e; [name, value] := grant_field(k, v)}
	count(g) == count(e)
}

grant_field("hosts", v) := ["hosts", sort(v)] if names(v)

grant_field("commands", v) := ["commands", sort(v)] if names(v)

grant_field("paths", v) := ["paths", v] if {
	is_object(v)
	every path, mode in v {
		is_string(path)
		mode in {"ro", "rw"}
	}
}

grant_field("timeout", v) := ["timeout_ns", ns] if ns := duration_ns(v)

grant_field("memory_mib", v) := ["memory_mib", v] if {
	whole(v)
	v >= 1
}

# A list or set of names, none of them empty.
names(v) if {
	is_array(v)
	every n in v {
		name(n)
	}
}

names(v) if {
	is_set(v)
	every n in v {
		name(n)
	}
}

name(n) if {
	is_string(n)
	n != ""
}

# The name of a person as the host takes it: it can be seen, and no other name looks
# the same by spaces around it or characters without a shape.
person(n) if {
	count(n) <= 256
	regex.match(`^[\pL\pM\pN\pP\pS\p{Zs}]+$`, n)
	not regex.match(`^\p{Zs}|\p{Zs}$`, n)
	not regex.match(`[\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{E0100}-\x{E01EF}]`, n)
}

whole(v) if {
	is_number(v)
	floor(v) == v
}

# A duration is a positive text as in Go ("90s", "1h30m"), or whole days ("7d").
# The pattern comes first: a built-in that fails ends the whole evaluation.
duration_ns(v) := ns if {
	is_string(v)
	regex.match(`^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}$`, v)
	ns := time.parse_duration_ns(v)
	ns > 0
}

duration_ns(v) := ns if {
	is_string(v)
	regex.match(`^[0-9]{1,4}d$`, v)
	ns := ((to_number(trim_suffix(v, "d")) * 24) * 3600) * 1000000000
	ns > 0
}

# A time is RFC 3339, or nanoseconds since 1970. A number that is too small to be
# nanoseconds was meant as seconds or milliseconds and would be long past.
time_ns(v) := ns if {
	is_string(v)
	regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`, v)
	ns := time.parse_rfc3339_ns(v)
}

time_ns(v) := v if {
	whole(v)
	v >= 1000000000000000000
	v <= 9000000000000000000
}
