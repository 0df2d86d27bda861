package plugins

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
)

// Result keeps secrets out of what an executor gives back, which the ledger will hold
// and everybody will read: it changes out, and returns it or what takes its place, of
// at most limit bytes. A result that would store a secret is an error result, because
// who reads the state later would take the mark for the value.
func (r *Redactor) Result(call *batch.Call, out *batch.Output, err error, limit int) (*batch.Output, error) {
	if r.Longest() == 0 {
		return out, err
	}
	if err != nil {
		return out, redactError(r, err)
	}
	if out == nil {
		return nil, nil
	}
	for _, c := range out.State {
		_, inKey := r.Finds(c.Key)
		if inKey || !bytes.Equal(r.JSON(c.Value), c.Value) {
			return batch.ErrorOutput(call.ID, fmt.Sprintf("tool %s asked to keep the value of a secret in the state key %q, which would store it: nothing of its result is kept", call.Tool, r.String(c.Key))), nil
		}
	}
	for i := range out.Content {
		redactBlock(r, &out.Content[i])
	}
	if out.Size() > limit {
		return batch.ErrorOutput(call.ID, fmt.Sprintf("tool %s gave an output that is larger than %d MiB once the secrets in it are replaced ([limits].output_mib)", call.Tool, limit>>20)), nil
	}
	return out, nil
}

func redactBlock(known *Redactor, b *batch.ContentBlock) {
	b.Text, b.MimeType, b.URI = known.String(b.Text), known.String(b.MimeType), known.String(b.URI)
	switch b.Type {
	case batch.BlockJSON:
		b.JSON = known.JSON(b.JSON)
	case batch.BlockImage, batch.BlockAudio:
		// Less of an image or a sound is none, and readers would stumble over it.
		if name, found := known.Finds(string(b.Data)); found {
			*b = batch.TextBlock(fmt.Sprintf("[redacted:%s] (the %s held the value of a secret)", name, b.Type))
		}
	default:
		b.Data = known.Bytes(b.Data)
	}
}

// redactError keeps err as it is where it holds no secret.
func redactError(known *Redactor, err error) error {
	if _, found := known.Finds(err.Error()); !found {
		return err
	}
	var te *batch.ToolError
	if !errors.As(err, &te) {
		return errors.New(known.String(err.Error()))
	}
	clean := &batch.ToolError{Kind: te.Kind, Msg: known.String(te.Msg)}
	if te.Err != nil {
		clean.Err = errors.New(known.String(te.Err.Error()))
	}
	return clean
}
