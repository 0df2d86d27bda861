package batch

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// BlockType is the kind of a ContentBlock. Persisted: names are never reused.
type BlockType string

// The block types.
const (
	BlockUnknown  BlockType = ""
	BlockText     BlockType = "text"
	BlockImage    BlockType = "image"
	BlockAudio    BlockType = "audio"
	BlockResource BlockType = "resource"
	BlockJSON     BlockType = "json"
)

// ContentBlock is one piece of a result. Exactly the fields of its type are set:
// text: Text; image and audio: Data and MimeType; resource: URI, and Text or
// Data, and optionally MimeType; json: JSON.
type ContentBlock struct {
	Type     BlockType       `json:"type"`
	Text     string          `json:"text,omitempty"`
	Data     []byte          `json:"data,omitempty"` // base64 in JSON
	MimeType string          `json:"mime_type,omitempty"`
	URI      string          `json:"uri,omitempty"`
	JSON     json.RawMessage `json:"json,omitempty"`
}

// MarshalJSON writes the fields of the block's type; a text block always has its
// text, also when that is empty.
func (b ContentBlock) MarshalJSON() ([]byte, error) {
	if b.Type == BlockText {
		return json.Marshal(struct {
			Type BlockType `json:"type"`
			Text string    `json:"text"`
		}{b.Type, b.Text})
	}
	type plain ContentBlock
	return json.Marshal(plain(b))
}

// TextBlock returns a text block.
func TextBlock(s string) ContentBlock { return ContentBlock{Type: BlockText, Text: s} }

// JSONBlock returns a json block holding raw, which must be valid JSON.
func JSONBlock(raw json.RawMessage) ContentBlock { return ContentBlock{Type: BlockJSON, JSON: raw} }

// Validate reports what is wrong with the block, nil if nothing is.
func (b ContentBlock) Validate() error {
	if !utf8.ValidString(b.Text) || !utf8.ValidString(b.MimeType) || !utf8.ValidString(b.URI) {
		return fmt.Errorf("%s block has text that is not UTF-8", b.Type)
	}
	only := func(ok bool, want string) error {
		if !ok {
			return fmt.Errorf("a %s block has %s and nothing else", b.Type, want)
		}
		return nil
	}
	switch b.Type {
	case BlockText:
		return only(b.Data == nil && b.MimeType == "" && b.URI == "" && b.JSON == nil, "text")
	case BlockImage, BlockAudio:
		return only(len(b.Data) > 0 && b.MimeType != "" && b.Text == "" && b.URI == "" && b.JSON == nil, "data and mime_type")
	case BlockResource:
		return only(b.URI != "" && b.JSON == nil && (b.Text == "" || b.Data == nil), "uri, an optional mime_type, and text or data")
	case BlockJSON:
		if !json.Valid(b.JSON) || !utf8.Valid(b.JSON) {
			return fmt.Errorf("a json block must hold valid JSON in UTF-8")
		}
		return only(b.Text == "" && b.Data == nil && b.MimeType == "" && b.URI == "", "json")
	default:
		return fmt.Errorf("unknown content block type %q: text, image, audio, resource and json are known", string(b.Type))
	}
}

// Output is what a call produced: the shape of the seed's ToolOutput. IsError
// says that the tool failed; a host that fails returns a ToolError instead.
type Output struct {
	CallID  CallID         `json:"call_id"`
	Content []ContentBlock `json:"content"`
	IsError bool           `json:"is_error"`
	State   []Command      `json:"state,omitempty"`

	// Tier names the sandbox tier that really ran the call; empty in the Brain.
	// Executors set it, guests cannot.
	Tier string `json:"tier,omitempty"`
	// Fallback says, in one line, why Tier is not the one that the operator chose;
	// empty where it is. Executors set it, guests cannot.
	Fallback string `json:"fallback,omitempty"`
}

// Text is the derived plain-text view: text blocks and json blocks joined by new
// lines, other blocks as "[image image/png, 120 bytes]". It is never stored.
func (o *Output) Text() string {
	parts := make([]string, 0, len(o.Content))
	for _, b := range o.Content {
		switch b.Type {
		case BlockText:
			parts = append(parts, b.Text)
		case BlockJSON:
			parts = append(parts, string(b.JSON))
		case BlockResource:
			if b.Text != "" {
				parts = append(parts, b.Text)
			} else {
				parts = append(parts, fmt.Sprintf("[resource %s]", b.URI))
			}
		default:
			parts = append(parts, fmt.Sprintf("[%s %s, %d bytes]", b.Type, b.MimeType, len(b.Data)))
		}
	}
	return strings.Join(parts, "\n")
}

// Size is the number of payload bytes of content and state, the measure of the
// output limit.
func (o *Output) Size() int {
	n := 0
	for _, b := range o.Content {
		n += len(b.Text) + len(b.Data) + len(b.MimeType) + len(b.URI) + len(b.JSON)
	}
	for _, c := range o.State {
		n += len(c.Key) + len(c.Value)
	}
	return n
}

// ErrorOutput is the result of a call that failed with the given text.
func ErrorOutput(id CallID, text string) *Output {
	return &Output{CallID: id, IsError: true, Content: []ContentBlock{TextBlock(text)}}
}
