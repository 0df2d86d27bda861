package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	extism "github.com/extism/go-sdk"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// awakenFunctions are the host's own functions: the offset of a JSON request in,
// the offset of a JSON answer out, 0 where there is nothing to say. A request that
// cannot be served is answered with {"error":"…"}; none of them traps.
var awakenFunctions = map[string]signature{
	"awaken_call":       "i64>i64",
	"awaken_state_get":  "i64>i64",
	"awaken_secret_get": "i64>i64",
	"awaken_log":        "i64>i64",
	"awaken_progress":   "i64>i64",
	execFunction:        "i64>i64",
}

// maxRequest bounds the JSON of one request of a guest.
const maxRequest = 1 << 20

// guestCall is what the host's functions know of the call that is running.
type guestCall struct {
	call           *batch.Call
	log            guestLog
	secrets        *callSecrets
	plugin         *plugins.Plugin
	inst           *instance
	session        *egress.Session
	carrier        Carrier // in place of session; may be nil
	commands       Commands
	maxRequestBody int64  // bytes
	stopped        string // why one of the host's functions ended the guest, to complete "tool x …"
}

type guestCallKey struct{}

func hostFunctions() []extism.HostFunction {
	serve := map[string]func(*guestCall, []byte) (any, error){
		"awaken_call":       serveCall,
		"awaken_state_get":  serveStateGet,
		"awaken_secret_get": serveSecretGet,
		"awaken_log":        serveLog,
		"awaken_progress":   serveProgress,
		execFunction:        serveExec,
	}
	list := make([]extism.HostFunction, 0, len(serve))
	for _, name := range sortedKeys(serve) {
		list = append(list, hostFunction(name, serve[name]))
	}
	return append(list, httpHostFunction(), renumberHostFunction())
}

func hostFunction(name string, serve func(*guestCall, []byte) (any, error)) extism.HostFunction {
	return extism.NewHostFunctionWithStack(name, func(ctx context.Context, p *extism.CurrentPlugin, stack []uint64) {
		answer := answerRequest(ctx, name, serve, func() ([]byte, error) { return readBlock(ctx, p, stack[0], maxRequest) })
		stack[0] = 0
		if answer == nil {
			return
		}
		offset, err := p.AllocWithContext(ctx, uint64(len(answer)))
		// Offset 0 means that Extism's memory is full; the budget has noted it.
		if err != nil || offset == 0 || offset > math.MaxUint32 || !p.Memory().Write(uint32(offset), answer) {
			return
		}
		stack[0] = offset
	}, []extism.ValueType{extism.ValueTypeI64}, []extism.ValueType{extism.ValueTypeI64})
}

// answerRequest never panics: a panic in a host function would end the guest with
// a stack trace of the host.
func answerRequest(ctx context.Context, name string, serve func(*guestCall, []byte) (any, error), read func() ([]byte, error)) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			answer = errorAnswer(fmt.Errorf("%s failed in the host: %v", name, r))
		}
	}()
	g, ok := ctx.Value(guestCallKey{}).(*guestCall)
	if !ok {
		return errorAnswer(errors.New(name + " works only during a call"))
	}
	request, err := read()
	if err != nil {
		return errorAnswer(fmt.Errorf("%s: %w", name, err))
	}
	value, err := serve(g, request)
	if err != nil {
		return errorAnswer(fmt.Errorf("%s: %w", name, err))
	}
	if value == nil {
		return nil
	}
	answer, err = json.Marshal(value)
	if err != nil {
		return errorAnswer(fmt.Errorf("%s: %w", name, err))
	}
	return answer
}

func errorAnswer(err error) []byte {
	b, _ := json.Marshal(map[string]string{"error": printable(err.Error(), maxErrorText)})
	return b
}

// readBlock copies a block of Extism's memory of at most so many bytes; 0 is an
// empty one.
func readBlock(ctx context.Context, p *extism.CurrentPlugin, offset uint64, most int64) ([]byte, error) {
	if offset == 0 {
		return nil, nil
	}
	n, err := p.LengthWithContext(ctx, offset)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if n > math.MaxInt32 || int64(n) > most {
		return nil, fmt.Errorf("the request is %d bytes, at most %d are allowed", n, most)
	}
	outside := errors.New("the request is outside of Extism's memory")
	if offset > math.MaxUint32 {
		return nil, outside
	}
	view, ok := p.Memory().Read(uint32(offset), uint32(n))
	if !ok {
		return nil, outside
	}
	return append([]byte(nil), view...), nil
}

// callInfo is the identity of a call as a guest sees it.
type callInfo struct {
	Run       batch.RunID       `json:"run"`
	Batch     batch.BatchID     `json:"batch"`
	Operation batch.OperationID `json:"operation"`
	Attempt   int               `json:"attempt"`
	Tool      batch.ToolID      `json:"tool"`
}

func newCallInfo(c *batch.Call) callInfo {
	return callInfo{c.Run, c.Batch(), c.Operation(), c.Attempt, c.Tool}
}

func serveCall(g *guestCall, _ []byte) (any, error) { return newCallInfo(g.call), nil }

func serveStateGet(g *guestCall, request []byte) (any, error) {
	var q struct {
		Key *string `json:"key"`
	}
	if err := json.Unmarshal(request, &q); err != nil || q.Key == nil {
		return nil, errors.New(`the request is not {"key":"…"}`)
	}
	value, found := g.call.State[*q.Key]
	return struct {
		Found bool            `json:"found"`
		Value json.RawMessage `json:"value,omitempty"`
	}{found, value}, nil
}

func serveLog(g *guestCall, request []byte) (any, error) {
	var q struct {
		Level   string `json:"level"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, errors.New(`the request is not {"level":"…","message":"…"}`)
	}
	level := slog.LevelInfo
	switch strings.ToLower(q.Level) {
	case "debug":
		level = slog.LevelDebug
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	case "", "info":
	default:
		return nil, fmt.Errorf("unknown level %q: debug, info, warn and error are known", printable(q.Level, 64))
	}
	g.log.say(level, "awaken_log", q.Message)
	return nil, nil
}

func serveProgress(g *guestCall, request []byte) (any, error) {
	var q struct {
		Progress *float64 `json:"progress"`
		Total    *float64 `json:"total"`
		Message  string   `json:"message"`
	}
	if err := json.Unmarshal(request, &q); err != nil || q.Progress == nil {
		return nil, errors.New(`the request is not {"progress":1,"total":4,"message":"…"}`)
	}
	total := "?"
	if q.Total != nil {
		total = fmt.Sprint(*q.Total)
	}
	g.log.say(slog.LevelInfo, "awaken_progress", fmt.Sprintf("%v/%s %s", *q.Progress, total, q.Message))
	return nil, nil
}
