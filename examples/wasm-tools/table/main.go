// Command table is a plugin that reads CSV: from_csv answers with three content
// blocks (text, json, resource), summarize with statistics per column.
//
// Built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/extism/go-pdk"
)

// A reactor module needs a main function; it never runs.
func main() {}

type input struct {
	CSV       string `json:"csv"`
	Delimiter string `json:"delimiter"`
	MaxRows   int    `json:"max_rows"`
}

// block is one content block of the envelope that encoding "blocks" asks for.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text,omitempty"`
	MimeType string          `json:"mime_type,omitempty"`
	URI      string          `json:"uri,omitempty"`
	JSON     json.RawMessage `json:"json,omitempty"`
}

type envelope struct {
	Content []block `json:"content"`
	IsError bool    `json:"is_error"`
}

// refuse is a result for the model: the tool worked, the table did not.
func refuse(err error) int32 {
	return answer(envelope{IsError: true, Content: []block{{Type: "text", Text: err.Error()}}})
}

func answer(v any) int32 {
	if err := pdk.OutputJSON(v); err != nil {
		pdk.SetError(fmt.Errorf("writing the answer: %w", err))
		return 1
	}
	return 0
}

func read() (*sheet, error) {
	var in input
	if err := pdk.InputJSON(&in); err != nil {
		return nil, fmt.Errorf("the input is not what the schema says: %w", err)
	}
	return parse(in)
}

//go:wasmexport from_csv
func fromCSV() int32 {
	s, err := read()
	if err != nil {
		return refuse(err)
	}
	rows, err := json.Marshal(s.objects())
	if err != nil {
		return refuse(err)
	}
	text, err := s.csv()
	if err != nil {
		return refuse(err)
	}
	return answer(envelope{Content: []block{
		{Type: "text", Text: s.markdown()},
		{Type: "json", JSON: rows},
		{Type: "resource", URI: "table:///rows.csv", MimeType: "text/csv", Text: text},
	}})
}

//go:wasmexport summarize
func summarize() int32 {
	s, err := read()
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	return answer(map[string]any{"rows": len(s.rows), "columns": s.summary()})
}
