package host

import (
	"encoding/json"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
)

// Answer renders the result for whoever sent the message, in the dialect of the
// message. In our own dialect it is the Result itself, parked ones included; in a
// foreign one it is the message that carries the tool results, and nil while the
// batch is not published: those dialects have no word for waiting.
func (r *Result) Answer() ([]byte, error) {
	switch r.Dialect {
	case DialectAnthropic, DialectOpenAI:
		if r.Phase != batch.BatchFinalized {
			return nil, nil
		}
		if r.Dialect == DialectAnthropic {
			return json.Marshal(r.anthropic())
		}
		return json.Marshal(r.openAI())
	case DialectOwn, "":
		return json.Marshal(r)
	}
	return nil, fmt.Errorf("batch %s: unknown dialect %q", r.Batch, string(r.Dialect))
}

// anthropicBlock is a block of a tool_result's content, and the tool_result itself.
type anthropicBlock struct {
	Type      string           `json:"type"`
	ToolUseID batch.CallID     `json:"tool_use_id,omitempty"`
	Content   []anthropicBlock `json:"content,omitempty"`
	IsError   bool             `json:"is_error,omitempty"`
	Text      string           `json:"text,omitempty"`
	Source    *anthropicSource `json:"source,omitempty"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

// anthropic is one user message with a tool_result block for each call. Images
// are images; json, resources and audio, which that form does not have in tool
// results, are text.
func (r *Result) anthropic() any {
	blocks := make([]anthropicBlock, len(r.Results))
	for i, c := range r.Results {
		b := anthropicBlock{Type: "tool_result", ToolUseID: c.CallID, IsError: c.IsError}
		for _, cb := range c.Content {
			if cb.Type == batch.BlockImage {
				b.Content = append(b.Content, anthropicBlock{Type: "image", Source: &anthropicSource{
					Type: "base64", MediaType: cb.MimeType, Data: cb.Data,
				}})
			} else if text := blockText(cb); text != "" { // an empty text block is refused there
				b.Content = append(b.Content, anthropicBlock{Type: "text", Text: text})
			}
		}
		blocks[i] = b
	}
	return struct {
		Role    string           `json:"role"`
		Content []anthropicBlock `json:"content"`
	}{"user", blocks}
}

// openAI is one tool message for each call, in an array. Content is text there;
// the error flag, which that form lacks, is said in the text.
func (r *Result) openAI() any {
	type message struct {
		Role       string       `json:"role"`
		ToolCallID batch.CallID `json:"tool_call_id"`
		Content    string       `json:"content"`
	}
	msgs := make([]message, len(r.Results))
	for i, c := range r.Results {
		text := (&batch.Output{Content: c.Content}).Text()
		if c.IsError {
			text = "error: " + text
		}
		msgs[i] = message{"tool", c.CallID, text}
	}
	return msgs
}

func blockText(b batch.ContentBlock) string {
	return (&batch.Output{Content: []batch.ContentBlock{b}}).Text()
}
