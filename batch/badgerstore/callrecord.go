package badgerstore

import (
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// callHeader heads the record of what changes of a call.
type callHeader struct {
	Phase     batch.Phase    `json:"phase"`
	Attempt   int            `json:"attempt,omitempty"`
	Ticket    batch.TicketID `json:"ticket,omitempty"`
	Grant     *batch.Grant   `json:"grant,omitempty"`
	Answer    batch.Answer   `json:"answer,omitempty"`
	Reason    exactString    `json:"reason,omitempty"`
	StartedAt time.Time      `json:"started_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Output    *outputHeader  `json:"output,omitempty"`
}

type outputHeader struct {
	CallID  batch.CallID    `json:"call_id"`
	IsError bool            `json:"is_error,omitempty"`
	Tier    string          `json:"tier,omitempty"`
	Content []blockHeader   `json:"content"`
	State   []commandHeader `json:"state,omitzero"`
}

type blockHeader struct {
	Type     batch.BlockType `json:"type"`
	Text     *int            `json:"text,omitempty"`
	Data     *int            `json:"data,omitempty"`
	MimeType exactString     `json:"mime_type,omitempty"`
	URI      exactString     `json:"uri,omitempty"`
	JSON     *int            `json:"json,omitempty"`
}

type commandHeader struct {
	Op    batch.Op    `json:"op"`
	Key   exactString `json:"key"`
	Value *int        `json:"value,omitempty"`
}

func encodeCall(c *batch.CallState) ([]byte, error) {
	var parts blobs
	h := callHeader{
		Phase: c.Phase, Attempt: c.Attempt, Ticket: c.Ticket, Grant: c.Grant, Answer: c.Answer,
		Reason: exactString(c.Reason), StartedAt: c.StartedAt, EndedAt: c.EndedAt,
	}
	if c.Output != nil {
		h.Output = packOutput(&parts, c.Output)
	}
	return parts.seal(kindCall, h)
}

func packOutput(parts *blobs, o *batch.Output) *outputHeader {
	h := &outputHeader{CallID: o.CallID, IsError: o.IsError, Tier: o.Tier}
	if o.Content != nil {
		h.Content = make([]blockHeader, len(o.Content))
	}
	for i, b := range o.Content {
		h.Content[i] = blockHeader{Type: b.Type, MimeType: exactString(b.MimeType), URI: exactString(b.URI)}
		if b.Text != "" {
			h.Content[i].Text = parts.add([]byte(b.Text))
		}
		h.Content[i].Data = parts.add(b.Data)
		h.Content[i].JSON = parts.add(b.JSON)
	}
	if o.State != nil {
		h.State = make([]commandHeader, len(o.State))
	}
	for i, c := range o.State {
		h.State[i] = commandHeader{Op: c.Op, Key: exactString(c.Key), Value: parts.add(c.Value)}
	}
	return h
}

// decodeCall fills the changing part of c from its record.
func decodeCall(c *batch.CallState, rec []byte) error {
	body, err := unseal(kindCall, rec)
	if err != nil {
		return err
	}
	var h callHeader
	parts, err := openBlobs(body, &h)
	if err != nil {
		return err
	}
	c.Phase, c.Attempt, c.Ticket, c.Grant, c.Answer = h.Phase, h.Attempt, h.Ticket, h.Grant, h.Answer
	c.Reason, c.StartedAt, c.EndedAt = string(h.Reason), h.StartedAt, h.EndedAt
	if h.Output != nil {
		c.Output = unpackOutput(parts, h.Output)
	}
	return parts.done()
}

func unpackOutput(parts *unblobs, h *outputHeader) *batch.Output {
	o := &batch.Output{CallID: h.CallID, IsError: h.IsError, Tier: h.Tier}
	if h.Content != nil {
		o.Content = make([]batch.ContentBlock, len(h.Content))
	}
	for i, b := range h.Content {
		o.Content[i] = batch.ContentBlock{
			Type: b.Type, MimeType: string(b.MimeType), URI: string(b.URI),
			Text: string(parts.take(b.Text)), Data: parts.take(b.Data), JSON: parts.take(b.JSON),
		}
	}
	if h.State != nil {
		o.State = make([]batch.Command, len(h.State))
	}
	for i, c := range h.State {
		o.State[i] = batch.Command{Op: c.Op, Key: string(c.Key), Value: parts.take(c.Value)}
	}
	return o
}
