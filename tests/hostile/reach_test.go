package hostile

// In what follows HTTP is the address of a server that is granted, OTHER that of one
// that is not, both on loopback. The folder that is granted is made by
// world.folder, which says what is in it.

const (
	server  = "[plugin.grant]\nhosts = [\"http://HTTP\"]\n"
	example = "[plugin.grant]\nhosts = [\"example.com\", \"http://example.com\"]\n"
	anyHost = `hosts = ["http://HTTP", "example.com", "http://example.com"]`

	readWrite = "[plugin.grant]\npaths = { \"/workspace\" = { host = \"work\", mode = \"rw\", max_mib = 1, max_files = 100 } }\n"
	readOnly  = "[plugin.grant]\npaths = { \"/workspace\" = { host = \"work\", mode = \"ro\" } }\n"
	workspace = `paths = { "/workspace" = "rw" }`

	token   = "[plugin.secrets]\nTOKEN = { env = \"ATTACK_TOKEN\" }\n"
	secrets = `secrets = ["TOKEN"]`
)

// refusedHost is how a guest hears that it may not go somewhere.
const refusedHost = `may not reach|not granted|refused`

var networkAttacks = []attack{
	{guest: "socket", outcome: "finds none", answers: `^"no socket"$`},
	{guest: "fetch", name: "fetch_ungranted", trick: "Asks for a host that its manifest names and the operator did not grant.",
		outcome: "refused", capabilities: anyHost, args: `{"url":"http://HTTP/"}`, fails: refusedHost},
	{guest: "fetch", name: "fetch_other_port", trick: "Asks for another port of a granted host.",
		outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://OTHER/"}`, fails: refusedHost},
	{guest: "fetch", name: "fetch_redirect", trick: "Follows a redirect of a granted host to one that is not.",
		outcome: "refused at the second hop", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/redirect"}`, fails: refusedHost},
	{guest: "fetch", name: "fetch_loopback", trick: "Asks for loopback by another name: a number, octal, IPv6.",
		outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://2130706433/"}`, fails: refusedHost},
	{guest: "fetch", name: "fetch_endless", trick: "Asks for a body that never ends.",
		outcome: "fails at the limit of an answer", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/endless"}`, fails: `response_mib`},
	{guest: "fetch", name: "fetch_slow", trick: "Asks for an answer that takes an hour to begin.",
		outcome: "stopped at its timeout", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/slow"}`, fails: `timeout of 1s`},
	{guest: "fetch", name: "fetch_bomb", trick: "Asks for a little gzip that unpacks to more than its memory.",
		outcome: "gets what was sent, and nothing is unpacked for it", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/bomb"}`, answers: `"status":200,"bytes":\d{5},`},
	{guest: "fetch", name: "fetch_proxy", trick: "Hopes that the host's proxy variables send its request somewhere else.",
		outcome: "they are not looked at", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/"}`, answers: `"status":200,.*"text":"granted"`},
	{guest: "fetch_metadata", outcome: "refused", capabilities: anyHost, plugin: server, fails: refusedHost},
	{guest: "fetch_file", outcome: "refused", capabilities: anyHost, plugin: server, fails: `scheme|http`},
	{guest: "fetch_userinfo", outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP@OTHER/"}`, fails: `.`},
	{guest: "fetch_inject", outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/"}`, fails: `(?i)header`},
	{guest: "fetch_host_header", outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/"}`, fails: `(?i)host`},
	{guest: "fetch_connect", outcome: "refused", capabilities: anyHost, plugin: server, args: `{"url":"http://HTTP/"}`, fails: `(?i)method|CONNECT`},
}

// absent is how a file that is not there, or not to be seen, looks to a guest.
const absent = `No such file|not permitted|Permission denied|Capabilities insufficient|Symbolic link loop|Bad file|Too many levels|Cross-device`

var fileAttacks = []attack{
	{guest: "file_absolute", outcome: "is not there", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "file_dotdot", outcome: "is not there", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "file_root", outcome: "sees the granted folder alone", capabilities: workspace, plugin: readWrite, answers: absent + `|workspace`},
	{guest: "link_made", outcome: "no link is made", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "link_found", outcome: "is not followed", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "link_found_folder", outcome: "is not followed", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "link_hard", outcome: "no link is made", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "link_hard_found", outcome: "a file with a second name is not opened", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "rename_out", outcome: "stays where it is", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "race", outcome: "reads nothing", capabilities: workspace, plugin: readWrite, answers: `nothing read`},
	{guest: "fifo", outcome: "is not opened, at once", capabilities: workspace, plugin: readWrite, answers: absent},
	{guest: "write_ro", outcome: "every change is refused", capabilities: workspace, plugin: readOnly, answers: `Read-only|not permitted|Permission`},
	{guest: "file_dotdot", name: "file_ungranted", trick: "Opens a folder that its manifest names and the operator did not grant.",
		outcome: "is not there", capabilities: workspace, answers: absent},
	{guest: "fill_bytes", outcome: "stops at the quota", capabilities: workspace, plugin: readWrite, answers: `No space|I/O error`},
	{guest: "fill_sparse", outcome: "stops at the quota: a hole counts", capabilities: workspace, plugin: readWrite, answers: `No space|I/O error|not supported`},
	{guest: "fill_files", outcome: "stops at the number of files", capabilities: workspace, plugin: readWrite, answers: `No space|I/O error`},
	{guest: "open_files", outcome: "stops at the number of open files of a call", capabilities: workspace, plugin: readWrite, answers: `Too many|I/O error`},
	{guest: "renumber", outcome: "stays what it is", capabilities: workspace, plugin: readWrite, answers: `(?i)not supported`},
}

var secretAttacks = []attack{
	{guest: "environment", name: "environment_with_secret", trick: "Looks for its secret, and others, in the environment.",
		outcome: "finds nothing", capabilities: secrets, plugin: token, answers: `^"nothing"$`},
	{guest: "secret_of_another", outcome: "is told that it has no such secret", capabilities: secrets, plugin: token, answers: `error`},
	{guest: "secret_leaked", outcome: "the name stands in the secret's place, wherever it would show", capabilities: secrets, plugin: token,
		answers: `^\{"plain":"\[redacted:TOKEN\]","base64":"\[redacted:TOKEN\]"\}$`},
	{guest: "secret_in_error", outcome: "the name stands in the secret's place", capabilities: secrets, plugin: token, fails: `cannot log in with \[redacted:TOKEN\]`},
}
