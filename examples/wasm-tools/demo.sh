#!/usr/bin/env bash
# demo.sh HOST PLUGINS: the main job on real plugins. HOST is the awaken-host
# program, PLUGINS the folder with the built example tools, one folder each; tools
# whose toolchain was missing are left out. Everything is kept in ./bin/demo, made
# anew each time, so that a reader can look at it afterwards.
set -euo pipefail

host=$1 plugins=$2
dir=bin/demo
rm -rf "$dir"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
try() { printf '$ awaken-host %s\n' "$*"; "$host" -q "$@"; }
# parks runs a command that must end with status 3: published later, parked now.
parks() {
  local status=0
  try "$@" || status=$?
  [ "$status" = 3 ] || { echo "demo: status $status, 3 (parked) was expected" >&2; exit 1; }
}

say "A host: configuration, policy, a fresh signing key, a first plugin written in C"
try init "$dir" >/dev/null
config=$dir/host.toml
sed -i.bak 's/^timeout = .*/timeout = "60s"/' "$config" # the calls that are killed below sleep for a while
rm "$config.bak"

say "More tools, built from source just now, signed with that key"
for tool in "$plugins"/*/; do
  name=$(basename "$tool")
  cp -r "$tool" "$dir/plugins/$name"
  "$host" -q plugin sign "$dir/plugins/$name" --key "$dir/keys/tools.key" >/dev/null
  [ ! -f "$tool/policy.rego" ] || mv "$dir/plugins/$name/policy.rego" "$dir/policy/$name.rego"
  printf '\n[[plugin]]\npath = "plugins/%s"\n' "$name" >>"$config"
  case $name in # what these ask for are places of their sandbox
  workspace) printf 'grant = { paths = { "/workspace" = { mode = "rw" } } }\n' >>"$config" ;;
  search) printf 'grant = { commands = ["grep"], paths = { "/workspace" = { mode = "rw" } } }\n' >>"$config" ;;
  esac
done
try tools list -c "$config"

say "Tools whose manifest says sandbox run behind a second wall, if this machine has one"
"$host" -q sandbox check namespace -c "$config" || echo "It has not, so their calls will be placement errors, and nothing of them runs."

say "A rule of the operator, beside the policies that the tools came with"
cat >"$dir/policy/demo.rego" <<'REGO'
package awaken.policy

block contains "nothing that looks like a password leaves this host" if {
	some value in input.call.arguments
	is_string(value)
	contains(lower(value), "password")
}
REGO
cat "$dir/policy/demo.rego"
try policy check -c "$config"

# Only calls to tools that were built; the others would be unknown tools.
calls=()
call() { # id tool arguments
  [ ! -d "$dir/plugins/${2%%__*}" ] || calls+=("{\"id\":\"$1\",\"tool\":\"$2\",\"arguments\":$3}")
}
call greet hello__greet '{"name":"Ada"}'
call words text__word_count '{"text":"Every call is durable. Every call is gated."}'
call table table__from_csv '{"csv":"part,count\nbolt,120\nnut,80\n"}'
call digest checksum__sha256 '{"data":"YWJj"}'
call marathon units__convert '{"value":42.195,"from":"km","to":"mi"}'
call sum calc__evaluate '{"expression":"2^10 + sqrt(81)"}'
call secret text__word_count '{"text":"my password is hunter2"}'
call nothing table__from_csv '{"csv":""}'
call search pattern__find '{"pattern":"\\d+","text":"a1 b22"}'
call find search__grep '{"pattern":"beans"}'
call note hello__add_note '{"text":"Water the plants."}'
(IFS=,; printf '{"calls":[%s]}\n' "${calls[*]}") >"$dir/message.json"

say "A model's message with ${#calls[@]} calls; one of them writes, so it waits for a person and nothing is published"
parks run -c "$config" --run demo -o table "$dir/message.json"

say "Another process: the run is there, and what it waits for"
try runs list -c "$config"
try tickets list -c "$config"
ticket=$("$host" -q tickets list -c "$config" -o json | sed -n 's/.*"id": *"\(tk-[a-z0-9]*\)".*/\1/p' | head -n 1)

say "Approved: the rest runs, and the whole batch is published at once"
try tickets approve -c "$config" -o table "$ticket"

slow=$(dirname "$plugins")/guests/slow
if [ -d "$slow" ]; then
  say "kill -9 in the middle of a call, then the next command"
  cp -r "$slow" "$dir/plugins/slow"
  "$host" -q plugin sign "$dir/plugins/slow" --key "$dir/keys/tools.key" >/dev/null
  printf '\n[[plugin]]\npath = "plugins/slow"\n' >>"$config"
  printf '{"calls":[{"id":"nap","tool":"slow__sleep_safe","arguments":{"ms":50000}}]}\n' >"$dir/nap.json"
  # $1 is the run.
  kill_and_go_on() {
    local log=$dir/$1.log pid
    "$host" -v run -c "$config" --run "$1" "$dir/nap.json" >"$log" 2>&1 &
    pid=$!
    until grep -q "runs, attempt 1" "$log"; do
      kill -0 "$pid" 2>/dev/null || { cat "$log" >&2; echo "demo: the run ended before it was killed" >&2; exit 1; }
      sleep 0.1
    done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    try run -c "$config" --run "$1" -o table "$dir/nap.json"
  }
  echo "Nobody said that the call may be repeated, so its outcome is unknown, and said to be:"
  kill_and_go_on killed
  echo
  echo "Its manifest says replay_safe; once host.toml says so too, the call is made again:"
  printf '[plugin.recovery]\nsleep_safe = "replay_safe"\n' | tee -a "$config"
  kill_and_go_on killed-again
else
  say "Left out: kill -9 in the middle of a call, and what the next command makes of it"
  echo "The slow tool for it is written in C and is not built; apt-get install clang lld, then make demo."
fi

say "All of it is in the ledger"
try runs show -c "$config" demo
