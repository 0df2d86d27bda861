package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
)

// Reason codes of decisions to block that the gate itself makes. Policies' own
// rules have the name of the rule as their code, or the code they give.
const (
	ReasonNoRule           = "no_rule"              // no rule matched
	ReasonUndefined        = "undefined"            // the entry point gave no decision
	ReasonEvalError        = "eval_error"           // evaluation failed, for example in a built-in
	ReasonConflict         = "conflict"             // rules contradict each other for this input
	ReasonTimeout          = "timeout"              // the deadline passed
	ReasonOddShape         = batch.ReasonOddShape   // an entry or the decision has a shape that is not known
	ReasonNoApprover       = "no_approver"          // confirmations leave too few who may approve
	ReasonConfirmMissing   = "confirmation_missing" // confirmation required of a call that cannot ask any more
	ReasonApprovalWeak     = "approval_insufficient"
	ReasonUnknownTool      = batch.ReasonUnknownTool
	ReasonToolChanged      = batch.ReasonToolChanged
	ReasonInvalidArguments = batch.ReasonInvalidArguments
	ReasonArgumentsLarge   = "arguments_too_large"
	ReasonInvalidInput     = "invalid_input"       // the question itself is incomplete
	ReasonNoHistory        = "history_unavailable" // the policy looks at history.principal, which cannot be read

	// Codes that go with other outcomes.
	ReasonApproved      = "approved"       // allow: an approval counted as the rule
	ReasonScheduleDue   = "schedule_due"   // allow: a scheduled time counted as the rule
	ReasonGrantNarrowed = "grant_narrowed" // allow: the policy's grant was wider than the plugin's
)

// Bounds of what a decision may carry into the record.
const (
	maxReasons      = 32
	maxMessageBytes = 1024
)

// answer is a decision of the entry point, read strictly.
type answer struct {
	outcome      batch.Outcome
	reasons      []batch.Reason
	grants       []grant
	result       *batch.Result
	confirmation *batch.Confirmation
	at           time.Time
}

// shapeError says where a decision differs from the shape described.
type shapeError struct{ msg string }

func (e *shapeError) Error() string { return e.msg }

func odd(format string, a ...any) error { return &shapeError{fmt.Sprintf(format, a...)} }

// readDecision accepts exactly what the base policy produces, in the form that
// OPA gives results in, and nothing else: no field more, none less.
func readDecision(v any) (*answer, error) {
	m, err := object("the decision", v)
	if err != nil {
		return nil, err
	}
	a := &answer{}
	want := []string{"outcome", "reasons"}
	outcome, err := text("outcome", m["outcome"])
	if err != nil {
		return nil, err
	}
	switch a.outcome = batch.Outcome(outcome); a.outcome {
	case batch.OutcomeBlock:
	case batch.OutcomeAllow:
		want = append(want, "grants")
		a.grants, err = readGrants(m["grants"])
	case batch.OutcomeSetResult:
		want = append(want, "result")
		a.result, err = readResult(m["result"])
	case batch.OutcomeRequireConfirmation:
		want = append(want, "confirmation")
		a.confirmation, err = readConfirmation(m["confirmation"])
	case batch.OutcomeSchedule:
		want = append(want, "at_ns")
		var ns int64
		if ns, err = integer("at_ns", m["at_ns"], 1, math.MaxInt64); err == nil {
			a.at = time.Unix(0, ns).UTC()
		}
	default:
		return nil, odd("outcome %.40q is not known", outcome)
	}
	if err != nil {
		return nil, err
	}
	if a.reasons, err = readReasons(m["reasons"]); err != nil {
		return nil, err
	}
	return a, only("the decision", m, want...)
}

func readReasons(v any) ([]batch.Reason, error) {
	items, err := array("reasons", v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, odd("reasons is empty")
	}
	var out []batch.Reason
	for _, item := range items {
		m, err := object("a reason", item)
		if err != nil {
			return nil, err
		}
		var r batch.Reason
		if r.Code, err = text("a reason's code", m["code"]); err != nil {
			return nil, err
		}
		if r.Code == "" {
			return nil, odd("a reason's code is empty")
		}
		if msg, ok := m["message"]; ok {
			if r.Message, err = text("a reason's message", msg); err != nil {
				return nil, err
			}
		}
		if err := only("a reason", m, "code", "message"); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return clipReasons(out), nil
}

// clipReasons keeps the record small however much a policy says.
func clipReasons(rs []batch.Reason) []batch.Reason {
	if n := len(rs); n > maxReasons {
		rs = append(rs[:maxReasons:maxReasons], batch.Reason{Code: "more_reasons", Message: fmt.Sprintf("%d more", n-maxReasons)})
	}
	for i := range rs {
		rs[i].Code = clip(rs[i].Code, 64)
		rs[i].Message = clip(rs[i].Message, maxMessageBytes)
	}
	return rs
}

// clip cuts s to at most n bytes, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func readResult(v any) (*batch.Result, error) {
	m, err := object("result", v)
	if err != nil {
		return nil, err
	}
	isError, ok := m["is_error"].(bool)
	if !ok {
		return nil, odd("result.is_error is not true or false")
	}
	items, err := array("result.content", m["content"])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, odd("result.content is empty")
	}
	r := &batch.Result{IsError: isError}
	for i, item := range items {
		b, err := readBlock(item)
		if err != nil {
			return nil, odd("result.content[%d]: %v", i, err)
		}
		r.Content = append(r.Content, b)
	}
	return r, only("result", m, "content", "is_error")
}

func readBlock(v any) (batch.ContentBlock, error) {
	var b batch.ContentBlock
	m, err := object("a content block", v)
	if err != nil {
		return b, err
	}
	for k, v := range m {
		var s string
		if k != "json" {
			if s, err = text(k, v); err != nil {
				return b, err
			}
		}
		switch k {
		case "type":
			b.Type = batch.BlockType(s)
		case "text":
			b.Text = s
		case "mime_type":
			b.MimeType = s
		case "uri":
			b.URI = s
		case "data":
			if b.Data, err = base64.StdEncoding.Strict().DecodeString(s); err != nil {
				return b, odd("data is not base64")
			}
		case "json":
			if b.JSON, err = compactJSON(v); err != nil {
				return b, odd("json cannot be written: %v", err)
			}
		default:
			return b, odd("%.40q is not known", k)
		}
	}
	return b, b.Validate()
}

// compactJSON writes v without the escapes that only HTML needs.
func compactJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func readConfirmation(v any) (*batch.Confirmation, error) {
	m, err := object("confirmation", v)
	if err != nil {
		return nil, err
	}
	c := &batch.Confirmation{}
	if c.Prompt, err = text("confirmation.prompt", m["prompt"]); err != nil {
		return nil, err
	}
	if c.Prompt == "" {
		return nil, odd("confirmation.prompt is empty")
	}
	c.Prompt = clip(c.Prompt, 8*maxMessageBytes)
	quorum, err := integer("confirmation.quorum", m["quorum"], 1, 1000)
	if err != nil {
		return nil, err
	}
	c.Quorum = int(quorum)
	if v, ok := m["approvers"]; ok {
		if c.Approvers, err = texts("confirmation.approvers", v); err != nil {
			return nil, err
		}
		for _, a := range c.Approvers {
			if !isPerson(a) {
				return nil, odd("confirmation.approvers has the name %q, which has spaces around it or invisible characters in it", clip(a, 80))
			}
		}
		// Without anybody in it the list would mean anybody.
		if len(c.Approvers) < c.Quorum {
			return nil, odd("confirmation.approvers are fewer than the quorum")
		}
	}
	if v, ok := m["timeout_ns"]; ok {
		ns, err := integer("confirmation.timeout_ns", v, 1, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		c.Timeout = time.Duration(ns)
	}
	return c, only("confirmation", m, "prompt", "quorum", "approvers", "timeout_ns")
}

// isPerson is shape.person once more: people are compared by their names.
func isPerson(n string) bool {
	return utf8.RuneCountInString(n) <= 256 && visible.MatchString(n) && !spaced.MatchString(n) && !shapeless.MatchString(n)
}

var (
	visible   = regexp.MustCompile(`^[\pL\pM\pN\pP\pS\p{Zs}]+$`)
	spaced    = regexp.MustCompile(`^\p{Zs}|\p{Zs}$`)
	shapeless = regexp.MustCompile(`[\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{E0100}-\x{E01EF}]`)
)

func object(what string, v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, odd("%s is not an object", what)
	}
	return m, nil
}

func array(what string, v any) ([]any, error) {
	a, ok := v.([]any)
	if !ok {
		return nil, odd("%s is not a list", what)
	}
	return a, nil
}

func text(what string, v any) (string, error) {
	s, ok := v.(string)
	if !ok || !utf8.ValidString(s) {
		return "", odd("%s is not a text", what)
	}
	return s, nil
}

// texts reads a list of distinct texts, none of them empty.
func texts(what string, v any) ([]string, error) {
	items, err := array(what, v)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(items))
	seen := map[string]bool{}
	for _, item := range items {
		s, err := text("an entry of "+what, item)
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, odd("an entry of %s is empty", what)
		}
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out, nil
}

func integer(what string, v any, min, max int64) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, odd("%s is not a number", what)
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		// OPA may write a whole number with an exponent or ".0".
		f, ferr := n.Float64()
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, odd("%s is not a whole number in range", what)
		}
		i = int64(f)
	}
	if i < min || i > max {
		return 0, odd("%s is %d, it must be from %d to %d", what, i, min, max)
	}
	return i, nil
}

// only refuses fields that are not known.
func only(what string, m map[string]any, names ...string) error {
	known := 0
	for _, n := range names {
		if _, ok := m[n]; ok {
			known++
		}
	}
	if known == len(m) {
		return nil
	}
	return odd("%s has a field beyond %v", what, names)
}
