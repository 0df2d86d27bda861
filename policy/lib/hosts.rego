# Hosts, by the grammar of manifests and grants:
#
#     [scheme://]host[:port]
#
# without a scheme https, without a port that of the scheme. "*." in front stands for one
# or more labels, never for none. A URL is plain when it is http or https, has no
# user in it, and its host is a name in ASCII, an IPv4 address of four decimal numbers or an
# IPv6 address in brackets. Names with other letters are written as in DNS (xn--…).
package awaken.lib.hosts

import data.awaken.lib

# plain(url): programs agree on where it leads.
plain(url) if {
	is_string(url)
	target(url)
} else := false

# reaches(url, patterns): it leads to a host that one of a list or set of patterns
# names.
reaches(url, patterns) := answer if {
	to := parsed(url)
	answer := true in {a | some p in patterns; a := covers(pattern(p), to)}
}

# covered(host, patterns): all that a host (or pattern) of a tool's capabilities names
# is named by one of a list or set of patterns too.
covered(host, patterns) := answer if {
	h := pattern(host)
	answer := true in {a | some p in patterns; a := covers(pattern(p), h)}
}

parsed(url) := t if {
	is_string(url)
	t := target(url)
} else := lib.fail(sprintf("hosts: %v is not a plain URL", [url]))

# What a URL leads to. The patterns are strict, since what they let through is read by
# other programs in their own ways.
target(url) := t if {
	regex.match(`^[!-~]+$`, url)
	not contains(url, `\`)
	m := regex.find_all_string_submatch_n(`^([A-Za-z]+)://([^/?#@]*)([/?#].*)?$`, url, 1)
	t := place(lower(m[0][1]), m[0][2], false)
}

pattern(p) := t if {
	is_string(p)
	t := pattern_target(p)
} else := lib.fail(sprintf("hosts: %v is not a host, write host or host:port", [p]))

pattern_target(p) := t if {
	m := regex.find_all_string_submatch_n(`^(([A-Za-z]+)://)?(\*\.)?([^/?#@\\*]+)$`, p, 1)
	t := place(scheme_of(m[0][2]), m[0][4], m[0][3] != "")
	not wild_address(t)
}

scheme_of("") := "https"

scheme_of(s) := lower(s) if s != ""

wild_address(t) if {
	t.wild
	t.kind != "name"
}

wild_address(t) if {
	t.wild
	t.host == "localhost"
}

place(scheme, authority, wild) := {"scheme": scheme, "host": h.host, "kind": h.kind, "port": port, "wild": wild} if {
	default_port := {"http": 80, "https": 443}[scheme]
	m := regex.find_all_string_submatch_n(`^(\[[0-9A-Fa-f:]+\]|[^:\[\]]+)(:([1-9][0-9]{0,4}))?$`, authority, 1)
	port := port_of(m[0][3], default_port)
	port <= 65535
	h := host_of(m[0][1])
}

port_of("", d) := d

port_of(p, _) := to_number(p) if p != ""

host_of(h) := {"kind": "v6", "host": trim(h, "[]")} if {
	startswith(h, "[")
	address := trim(h, "[]")
	count(address) <= 39
	v6(address)
} else := {"kind": "v4", "host": trimmed} if {
	trimmed := trim_suffix(h, ".")
	regex.match(`^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\.|$)){4}$`, trimmed)
	not endswith(trimmed, ".")
} else := {"kind": "name", "host": name} if {
	name := trim_suffix(lower(h), ".")
	count(name) <= 253
	regex.match(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`, name)
	not regex.match(`(^|\.)([0-9]+|0x[0-9a-f]*)$`, name)
}

# Eight groups, or fewer with one "::"; an IPv4 address in disguise is not plain.
v6(a) if {
	regex.match(`^([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$`, a)
	not disguised(a)
}

v6(a) if {
	count(split(a, "::")) == 2
	not contains(a, ":::")
	groups := [g | some g in split(a, ":"); g != ""]
	count(groups) <= 7
	regex.match(`^(([0-9A-Fa-f]{1,4}:)*[0-9A-Fa-f]{1,4})?::(([0-9A-Fa-f]{1,4}:)*[0-9A-Fa-f]{1,4})?$`, a)
	not disguised(a)
}

disguised(a) if net.cidr_contains("::ffff:0:0/96", a)

covers(p, t) if {
	same_door(p, t)
	not p.wild
	not t.wild
	same_host(p, t)
} else if {
	same_door(p, t)
	p.wild
	t.kind == "name"
	endswith(t.host, concat("", [".", p.host]))
} else if {
	same_door(p, t)
	p.wild
	t.wild
	p.host == t.host
} else := false

same_door(p, t) if {
	p.scheme == t.scheme
	p.port == t.port
}

same_host(p, t) if {
	p.kind == t.kind
	p.kind != "v6"
	p.host == t.host
}

same_host(p, t) if {
	p.kind == "v6"
	t.kind == "v6"
	net.cidr_contains(concat("", [p.host, "/128"]), t.host)
}
