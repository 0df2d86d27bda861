package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// repeatedKey finds what one reader of a data file may take otherwise than the
// next: a key that an object has twice, and a second document. Nil if there is
// nothing of the kind, or if the file is not valid for other reasons.
func repeatedKey(file string, raw []byte, isJSON bool) *Problem {
	if p := repeatedInJSON(file, raw); p != nil || isJSON {
		return p
	}
	return repeatedInYAML(file, raw) // JSON in a YAML file is read as JSON
}

func twice(file string, line int, path string) *Problem {
	return &Problem{File: file, Line: line, Message: fmt.Sprintf("sets the key %s twice; keep one of them", clip(path, 200))}
}

func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func repeatedInJSON(file string, raw []byte) *Problem {
	type level struct {
		path string
		keys map[string]bool // nil: a list
		key  string          // that the next value belongs to
		want bool            // a key comes next
		n    int
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var open []*level
	for {
		t, err := dec.Token()
		if err != nil {
			return nil // the end, or not JSON
		}
		var in *level
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
			open = open[:len(open)-1]
			continue
		}
		if key, ok := t.(string); ok && in != nil && in.want {
			if in.keys[key] {
				return twice(file, 1+bytes.Count(raw[:dec.InputOffset()], []byte("\n")), below(in.path, key))
			}
			in.keys[key], in.key, in.want = true, key, false
			continue
		}
		path := ""
		if in != nil {
			if in.keys != nil {
				path, in.want = below(in.path, in.key), true
			} else {
				path = in.path + "[" + strconv.Itoa(in.n) + "]"
				in.n++
			}
		}
		switch t {
		case json.Delim('{'):
			open = append(open, &level{path: path, keys: map[string]bool{}, want: true})
		case json.Delim('['):
			open = append(open, &level{path: path})
		}
	}
}

func repeatedInYAML(file string, raw []byte) *Problem {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var found *Problem
	for n := 0; ; n++ {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return found
		case err != nil:
			return nil // the next reader says why
		case n == 1:
			return &Problem{File: file, Line: doc.Line, Message: "has a second document, which nothing would read; put it into a file of its own"}
		}
		found = repeatedInNode(file, "", &doc, 0)
	}
}

// maxDataDepth is far more than anybody writes, and bounds the stack.
const maxDataDepth = 1000

func repeatedInNode(file, path string, n *yaml.Node, depth int) *Problem {
	if depth > maxDataDepth {
		return &Problem{File: file, Line: n.Line, Message: fmt.Sprintf("is nested more than %d deep; write it flatter", maxDataDepth)}
	}
	seen := map[string]bool{}
	for i, c := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.SequenceNode:
			at = path + "[" + strconv.Itoa(i) + "]"
		case n.Kind == yaml.MappingNode && i%2 == 0:
			name := keyName(c)
			if seen[name] {
				return twice(file, c.Line, below(path, name))
			}
			seen[name] = true
		case n.Kind == yaml.MappingNode:
			at = below(path, keyName(n.Content[i-1]))
		}
		if p := repeatedInNode(file, at, c, depth+1); p != nil {
			return p
		}
	}
	return nil
}

// keyName is what a key becomes under data, where all keys are texts: 1, 0x1 and
// "1" are the same.
func keyName(n *yaml.Node) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var v any
	if n.Kind != yaml.ScalarNode || n.Decode(&v) != nil {
		return n.Value
	}
	return fmt.Sprint(v)
}
