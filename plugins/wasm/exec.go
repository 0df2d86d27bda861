package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

const execFunction = "awaken_exec"

// Commands runs commands on behalf of calls, inside a boundary. Safe for concurrent
// use.
type Commands interface {
	// Run runs c to its end and returns what became of it: a command that fails, is
	// killed or runs out of time is a result. When it returns, nothing that the
	// command started runs any more. The error says why it was not started, or that ctx
	// ended, and is fit for the guest. It keeps nothing of c.
	Run(ctx context.Context, c *Command) (*CommandResult, error)
}

// Command is one command of a guest, already held against what its call may run.
type Command struct {
	Call *batch.Call
	// Folders are what stands behind the paths that the call may use, "ro" or "rw".
	Folders map[string]string
	Argv    []string // the first is a name without a slash
	Stdin   []byte
	Dir     string // relative to the workspace, slash separated; empty: the workspace
	Env     map[string]string
	Timeout time.Duration // 0: as long as the call
}

// CommandResult is what became of a command.
type CommandResult struct {
	ExitCode       int    // of a command that a signal ended: 128 and its number
	Signal         string // such as "killed"; empty: it ended by itself
	Stdout, Stderr Captured
	TimedOut       bool   // Command.Timeout ended it
	Limit          string // the limit of the sandbox that ended it, in words; empty: none did
}

// Captured is the beginning and the end of what a command wrote.
type Captured struct {
	Head, Tail []byte
	Dropped    int64 // bytes between them
}

// maxArgs bounds what one command gets, arguments and environment each.
const maxArgs = 1024

type execRequest struct {
	Argv        []string          `json:"argv"`
	Stdin       string            `json:"stdin"`
	StdinBase64 []byte            `json:"stdin_base64"`
	Dir         string            `json:"cwd"`
	Env         map[string]string `json:"env"`
	TimeoutMS   int64             `json:"timeout_ms"`
}

type execAnswer struct {
	ExitCode        int    `json:"exit_code"`
	Signal          string `json:"signal,omitempty"`
	TimedOut        bool   `json:"timed_out"`
	Limit           string `json:"limit,omitempty"`
	Stdout          string `json:"stdout"`
	StdoutBase64    []byte `json:"stdout_base64,omitempty"` // in place of Stdout when that is not UTF-8
	StdoutTruncated bool   `json:"stdout_truncated"`
	StdoutDropped   int64  `json:"stdout_dropped,omitempty"` // bytes, out of the middle
	Stderr          string `json:"stderr"`
	StderrBase64    []byte `json:"stderr_base64,omitempty"`
	StderrTruncated bool   `json:"stderr_truncated"`
	StderrDropped   int64  `json:"stderr_dropped,omitempty"`
}

func serveExec(g *guestCall, request []byte) (any, error) {
	if g.commands == nil {
		return nil, errors.New(`commands run in a sandbox only: set target = "sandbox" for the tool`)
	}
	var q execRequest
	if err := json.Unmarshal(request, &q); err != nil || len(q.Argv) == 0 {
		return nil, errors.New(`the request is not {"argv":["…"],"stdin":"…","cwd":"…","env":{"…":"…"},"timeout_ms":1000}`)
	}
	if err := g.mayRun(q.Argv[0]); err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	c := &Command{
		Call: g.call, Folders: effectiveFolders(g.plugin, g.call.Grant), Argv: q.Argv, Stdin: []byte(q.Stdin), Dir: q.Dir, Env: q.Env,
		Timeout: time.Duration(q.TimeoutMS) * time.Millisecond,
	}
	if len(q.StdinBase64) > 0 {
		c.Stdin = q.StdinBase64
	}
	r, err := g.commands.Run(g.secrets.ctx, c)
	if err != nil {
		return nil, err
	}
	a := execAnswer{ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, Limit: r.Limit}
	a.Stdout, a.StdoutBase64, a.StdoutDropped = r.Stdout.text()
	a.Stderr, a.StderrBase64, a.StderrDropped = r.Stderr.text()
	a.StdoutTruncated, a.StderrTruncated = a.StdoutDropped > 0, a.StderrDropped > 0
	return a, nil
}

// mayRun says who can move what stands in the way.
func (g *guestCall) mayRun(name string) error {
	shown := printable(name, 80)
	switch {
	case slices.Contains(g.plugin.Effective.Commands, name):
		if grant := g.call.Grant; grant != nil && grant.Commands != nil && !slices.Contains(grant.Commands, name) {
			return fmt.Errorf("may not run %q: the policy does not grant it to this call", shown)
		}
		return nil
	case slices.Contains(g.plugin.Manifest.Capabilities.Commands, name):
		return fmt.Errorf("may not run %q: the operator has not granted it; to do so, add commands = [%q] to [plugin.grant] of plugin %s", shown, shown, g.plugin.Manifest.ID)
	}
	return fmt.Errorf("may not run %q: the manifest of plugin %s does not ask for it in capabilities.commands, where commands stand by their bare names", shown, g.plugin.Manifest.ID)
}

func (q *execRequest) check() error {
	if strings.ContainsRune(q.Argv[0], '/') {
		return errors.New("a command is named without a path")
	}
	if len(q.Argv) > maxArgs || len(q.Env) > maxArgs {
		return fmt.Errorf("a command gets at most %d arguments, and as many variables", maxArgs)
	}
	if q.Stdin != "" && len(q.StdinBase64) > 0 {
		return errors.New("stdin and stdin_base64 exclude each other")
	}
	if q.TimeoutMS < 0 || q.TimeoutMS > int64(24*time.Hour/time.Millisecond) {
		return fmt.Errorf("timeout_ms is %d: write 0 for none, or up to a day", q.TimeoutMS)
	}
	for _, s := range q.Argv {
		if strings.ContainsRune(s, 0) {
			return errors.New("an argument holds a zero byte")
		}
	}
	for name, value := range q.Env {
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("the variable %s holds a zero byte", printable(name, 80))
		}
	}
	return nil
}

// effectiveFolders are those that a call of p may use, by name.
func effectiveFolders(p *plugins.Plugin, grant *batch.Grant) map[string]string {
	folders := map[string]string{}
	for _, m := range mountsOf(p, grant) {
		switch {
		case m.write:
			folders[m.host] = "rw"
		case folders[m.host] == "":
			folders[m.host] = "ro"
		}
	}
	return folders
}

// text is what is left of the stream in one piece, as text where it is UTF-8. A
// character that the gap went through is dropped with it.
func (c Captured) text() (s string, raw []byte, dropped int64) {
	head, tail := c.Head, c.Tail
	if dropped = c.Dropped; dropped > 0 {
		cutHead := trimEnd(head)
		cutTail := trimStart(tail)
		if utf8.Valid(cutHead) && utf8.Valid(cutTail) {
			dropped += int64(len(head) - len(cutHead) + len(tail) - len(cutTail))
			head, tail = cutHead, cutTail
		}
	}
	all := slices.Concat(head, tail)
	if utf8.Valid(all) {
		return string(all), nil, dropped
	}
	return "", all, dropped
}

// trimEnd drops the beginning of a character at the end.
func trimEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimStart drops the end of a character at the beginning.
func trimStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
