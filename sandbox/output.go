package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/awaken-agents/awaken-host/batch"
)

// EncodeOutput writes out as JSON for the channel and the ledger, such that decoding
// it gives out again, byte for byte: JSON inside of it stays as the tool wrote it,
// where json.Marshal would compact and escape it, and a result would be another one
// in a sandbox than beside the model. Nil is null.
func EncodeOutput(out *batch.Output) ([]byte, error) {
	if out == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	b.Grow(out.Size() + 256)
	w := outputWriter{b: &b}
	w.text(`{"call_id":`).value(out.CallID).text(`,"is_error":`).value(out.IsError)
	if out.Tier != "" {
		w.text(`,"tier":`).value(out.Tier)
	}
	if out.Fallback != "" {
		w.text(`,"fallback":`).value(out.Fallback)
	}
	if out.Content != nil {
		w.text(`,"content":[`)
		for i, block := range out.Content {
			w.comma(i)
			if block.Type == batch.BlockJSON {
				w.text(`{"type":"json","json":`).raw(block.JSON).text(`}`)
			} else {
				w.value(block)
			}
		}
		w.text(`]`)
	}
	if len(out.State) > 0 {
		w.text(`,"state":[`)
		for i, c := range out.State {
			w.comma(i)
			w.text(`{"op":`).value(c.Op).text(`,"key":`).value(c.Key)
			if c.Value != nil {
				w.text(`,"value":`).raw(c.Value)
			}
			w.text(`}`)
		}
		w.text(`]`)
	}
	w.text(`}`)
	if w.err != nil {
		return nil, fmt.Errorf("output of call %s: %w", out.CallID, w.err)
	}
	return b.Bytes(), nil
}

// maxBlocks bounds the blocks, and the commands, of one output: each takes two bytes to
// send and more than a hundred to keep. A Hand's own bound for its guests is the same.
const maxBlocks = 10_000

// DecodeOutput reads what EncodeOutput wrote, at the other end or by somebody who
// pretends to be there. Null is an error.
func DecodeOutput(raw []byte) (*batch.Output, error) {
	var out *batch.Output
	if bytes.Count(raw, []byte{','}) < maxBlocks { // so there are no more of anything
		if err := json.Unmarshal(raw, &out); err != nil {
			return nil, err
		}
	} else {
		var many *struct {
			batch.Output
			Content blocks   `json:"content"`
			State   commands `json:"state"`
		}
		if err := json.Unmarshal(raw, &many); err != nil {
			return nil, err
		}
		if many != nil {
			out = &many.Output
			out.Content, out.State = many.Content, many.State
		}
	}
	if out == nil {
		return nil, errNoOutput
	}
	return out, nil
}

var errNoOutput = errors.New("it holds no output")

type (
	blocks   []batch.ContentBlock
	commands []batch.Command
)

func (b *blocks) UnmarshalJSON(raw []byte) (err error) {
	*b, err = decodeList[batch.ContentBlock](bytes.NewReader(raw), maxBlocks, "blocks")
	return err
}

func (c *commands) UnmarshalJSON(raw []byte) (err error) {
	*c, err = decodeList[batch.Command](bytes.NewReader(raw), maxBlocks, "commands")
	return err
}

// decodeList reads a JSON list, or null, of so many at most.
func decodeList[T any](r io.Reader, most int, what string) ([]T, error) {
	d := json.NewDecoder(r)
	switch t, err := d.Token(); {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, nil
	case t != json.Delim('['):
		return nil, fmt.Errorf("there is no list of %s", what)
	}
	list := []T{}
	for d.More() {
		if len(list) == most {
			return nil, fmt.Errorf("there are more than %d %s", most, what)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	_, err := d.Token()
	return list, err
}

// outputWriter puts JSON together; the first error stays.
type outputWriter struct {
	b   *bytes.Buffer
	err error
}

func (w *outputWriter) text(s string) *outputWriter {
	w.b.WriteString(s)
	return w
}

func (w *outputWriter) comma(i int) {
	if i > 0 {
		w.b.WriteByte(',')
	}
}

func (w *outputWriter) value(v any) *outputWriter {
	b, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.b.Write(b)
	return w
}

func (w *outputWriter) raw(m json.RawMessage) *outputWriter {
	if !json.Valid(m) && w.err == nil {
		w.err = fmt.Errorf("it holds %.40q, which is not JSON", m)
	}
	w.b.Write(m)
	return w
}
