package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// resultFlags say what a call came to: content from a file.
type resultFlags struct {
	file string
	text bool
}

func (r *resultFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&r.file, "result", "", usage)
	cmd.Flags().BoolVar(&r.text, "text", false, "the file is plain text, not JSON")
	_ = cmd.RegisterFlagCompletionFunc("result", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
}

const resultForms = `an array of content blocks, such as [{"type":"text","text":"…"}], or {"content":[…],"is_error":false}; with --text the file is plain text`

// read reads the file that was named.
func (r *resultFlags) read(ctx context.Context, a *app) (content []standard.ContentBlock, isError bool, err error) {
	data, name, err := a.readInput(ctx, r.file)
	if err != nil {
		return nil, false, err
	}
	if r.text {
		if !utf8.Valid(data) {
			return nil, false, usagef("%s is not UTF-8", name)
		}
		return []standard.ContentBlock{{Type: standard.BlockText, Text: string(data)}}, false, nil
	}
	content, isError, err = parseContent(data)
	if err != nil {
		return nil, false, usagef("%s: %w; needed is %s", name, err, resultForms)
	}
	return content, isError, nil
}

// parseContent reads content blocks, alone or with the flag of an error. It is
// strict: a key that is not known would be lost in silence.
func parseContent(data []byte) (content []standard.ContentBlock, isError bool, err error) {
	data = bytes.TrimSpace(data)
	if !utf8.Valid(data) {
		return nil, false, errors.New("it is not UTF-8")
	}
	if bytes.HasPrefix(data, []byte("[")) {
		err = strictly(data, &content)
	} else {
		var out struct {
			Content *[]standard.ContentBlock `json:"content"`
			IsError bool                     `json:"is_error"`
		}
		err = strictly(data, &out)
		if err == nil && out.Content == nil {
			err = errors.New(`there is no "content"`)
		}
		if err == nil {
			content, isError = *out.Content, out.IsError
		}
	}
	if err != nil {
		return nil, false, err
	}
	if content == nil {
		content = []standard.ContentBlock{}
	}
	return content, isError, nil
}

func strictly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
