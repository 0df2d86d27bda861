package hostile

var timeAttacks = []attack{
	{guest: "spin", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "spin_in_host", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "spin_bulk", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "spin_start", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "spin_initialize", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "grow_spin", outcome: "stopped at its timeout, and nothing was granted", fails: `timeout of 1s|memory limit of 32 MiB`},
	{guest: "branching", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "small_functions", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "many_pieces", outcome: "stopped at its timeout", fails: `timeout of 1s`},
	{guest: "sleep", outcome: "woken and stopped at its timeout", fails: `timeout of 1s`},
	{guest: "log_flood", outcome: "the first lines are kept, the rest is counted; it pays with its own time", fails: `timeout of 1s`},
	{guest: "progress_flood", outcome: "the first are kept, the rest is counted", answers: `^"reported"$`},
}

var memoryAttacks = []attack{
	{guest: "grow", outcome: "fails with its memory limit", fails: `memory limit of 32 MiB`},
	{guest: "grow_extism", outcome: "fails with its memory limit", fails: `memory limit of 32 MiB`},
	{guest: "grow_tables", outcome: "is refused the entries", answers: `^0$`},
	{guest: "declares_large", outcome: "loads, and gets its limit and no more", fails: `memory limit of 32 MiB`},
	{guest: "starts_large", outcome: "refused at load", refused: `memory.*(32 MiB|4096 MiB)`},
	{guest: "many_memories", outcome: "refused at load; in a sandbox, when it is called", refused: `memor`, later: `at most one memory`},
	{guest: "big_vars", outcome: "fails before they are kept", fails: `(?i)variable|memory limit of 32 MiB`},
	{guest: "recurse", outcome: "fails with its stack", fails: `out of stack`},
	{guest: "data_segment", outcome: "fails when it is instantiated", fails: `instantiated`},
}

var loadAttacks = []attack{
	{guest: "unknown_import", outcome: "refused at load, by name", refused: `env\.system`},
	{guest: "reserved_import", outcome: "refused at load, by name", refused: `extism:host/kernel\.memory`},
	{guest: "program", outcome: "refused at load, with how to build it instead", refused: `_start`},
	{guest: "component", outcome: "refused at load, with how to build it instead", refused: `Component`},
	{guest: "truncated", outcome: "refused at load", refused: `damaged`},
	{guest: "locals", outcome: "refused before it is compiled", refused: `locals`},
	{guest: "many_functions", outcome: "refused before it is compiled", refused: `functions`},
	{guest: "branches", outcome: "refused before it is compiled", refused: `too long or too much memory`},
}

var outputAttacks = []attack{
	{guest: "big_output", outcome: "fails with the output limit", encoding: "text", fails: `16 MiB`},
	{guest: "big_error", outcome: "fails, with the beginning of the text", fails: `\.\.\.\.`},
	{guest: "bad_utf8", outcome: "fails", fails: `UTF-8`},
	{guest: "lone_surrogate", outcome: "fails", fails: `surrogate|character`},
	{guest: "nan", outcome: "fails", fails: `JSON`},
	{guest: "two_keys", outcome: "fails", encoding: "blocks", fails: `is_error`},
	{guest: "deep_json", outcome: "fails", fails: `nest|deep|depth`},
	{guest: "terminal", outcome: "fails, and no control character reaches the log or the terminal", fails: `all good`},
	{guest: "stdout", outcome: "its lines are in the log, marked as the plugin's", answers: `^"written"$`},
	{guest: "wild_pointer", outcome: "fails, or answers with nothing", fails: `.`},
	{guest: "scribble", outcome: "fails; what it broke was its own", fails: `.`},
	{guest: "exit_zero", outcome: "answers with what it had set, and its instance is not used again", answers: `^"done"$`},
}

const count = "[[state]]\nkey = \"count\"\nschema = { type = \"integer\" }\n"

var pretenceAttacks = []attack{
	{guest: "forge_tier", outcome: "fails", encoding: "blocks", fails: `executed`},
	{guest: "forge_call", outcome: "fails", encoding: "blocks", fails: `call_id`},
	{guest: "undeclared_state", outcome: "fails, and no state is set, the declared neither", encoding: "blocks", state: count, fails: `admin`},
	{guest: "foreign_state", outcome: "fails, and no state is set", encoding: "blocks", fails: `neighbour/count`},
	{guest: "read_foreign_state", outcome: "finds no such key", answers: `"found.":false`},
}

var isolationAttacks = []attack{
	{guest: "remember", outcome: "finds nothing", args: `{"keep":"of the first call"}`, again: true, answers: `^\{"static":"","var":""\}$`},
	{guest: "scavenge", outcome: "finds only zeros", again: true, answers: `^"clean"$`},
	{guest: "environment", outcome: "finds nothing", answers: `^"nothing"$`},
}
