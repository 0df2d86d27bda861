package awaken.lib.hosts_test

import data.awaken.lib.hosts

test_reaches if {
	every c in [
		["https://api.example.com/v1?x=1", "api.example.com"],
		["HTTPS://API.Example.COM", "api.example.com"],
		["https://api.example.com.:443/", "api.example.com:443"],
		["https://api.example.com:8443#x", "api.example.com:8443"],
		["http://api.example.com", "http://api.example.com"],
		["http://localhost:8080/", "http://localhost:8080"],
		["https://a.example.com", "*.example.com"],
		["https://a.b.example.com/", "*.example.com"],
		["https://192.0.2.1/", "192.0.2.1"],
		["https://[2001:db8::1]/", "[2001:db8:0:0::1]"],
		["https://[2001:DB8::1]:99", "[2001:db8::1]:99"],
		["https://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example"],
	] {
		hosts.reaches(c[0], [c[1]]) == true
	}
}

test_does_not_reach if {
	every c in [
		["https://example.com/", "*.example.com"],
		["https://badexample.com/", "*.example.com"],
		["https://example.com.evil.org/", "*.example.com"],
		["http://api.example.com/", "api.example.com"],
		["https://api.example.com:8443/", "api.example.com"],
		["https://evil.org/?api.example.com", "api.example.com"],
		["https://evil.org/api.example.com", "api.example.com"],
		["https://evil.org#api.example.com", "api.example.com"],
		["https://192.0.2.10/", "192.0.2.1"],
		["https://[2001:db8::2]/", "[2001:db8::1]"],
		["https://10.0.0.1/", "*.example.com"],
	] {
		hosts.reaches(c[0], [c[1]]) == false
	}
}

test_reaches_one_of_several if {
	hosts.reaches("https://b.example.org", {"*.example.com", "*.example.org"}) == true
	hosts.reaches("https://b.example.net", {"*.example.com", "*.example.org"}) == false
	hosts.reaches("https://b.example.net", []) == false
}

test_plain if {
	every u in ["https://a", "http://a.b:1/x", "https://[::1]/", "https://[::102:304]/", "https://a_b.c-d.e/%20"] {
		hosts.plain(u) == true
	}
	every u in [
		"", "a.example.com", "//a.example.com", "ftp://a.example.com", "https:/a", "https:a", "https://", "https:///a",
		"https://user@a.example.com", "https://a.example.com@evil.org", "https://a:b@c", "https://a\\.example.com", "https://evil.org\\@a.example.com",
		"https://a .example.com", "https://a\t.example.com", "https://a\n", " https://a", "https://ä.example.com", "https://a%2eexample.com", "https://a..b",
		"https://-a.b", "https://a:0", "https://a:65536", "https://a:", "https://a:080", "https://127.1", "https://0x7f.1", "https://2130706433", "https://0177.0.0.1",
		"https://256.0.0.1", "https://1.2.3.4.5", "https://[::1]x", "https://[::ffff:1.2.3.4]", "https://[::ffff:102:304]", "https://[0:0:0:0:0:ffff:1:2]", "https://[::0:ffff:1:2]",
		"https://[fe80::1%25eth0]", "https://[1:2:3]", "https://[1::2::3]", "https://[:::1]", "https://[]", "https://::1/",
		5, null, ["https://a"], {},
	] {
		hosts.plain(u) == false
	}
}

test_covered if {
	every c in [
		["api.example.com:443", "*.example.com"],
		["*.a.example.com", "*.example.com"],
		["*.example.com", "*.example.com:443"],
		["http://db:5432", "http://db:5432"],
	] {
		hosts.covered(c[0], [c[1]]) == true
	}
	every c in [
		["*.example.com", "a.example.com"],
		["*.example.com", "*.a.example.com"],
		["example.com", "*.example.com"],
		["a.example.com:80", "*.example.com"],
	] {
		hosts.covered(c[0], [c[1]]) == false
	}
}
