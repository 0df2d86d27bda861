// Package jsonschema checks values against JSON Schemas, in bounded time and without
// loading anything. Importing it has package schema use it.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/awaken-agents/awaken-host/plugins/schema"
	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// checker is a compiled JSON Schema that checks in bounded time. Safe for concurrent
// use.
type checker struct {
	source json.RawMessage

	mu   sync.Mutex
	idle []*countedSchema // each serves one check at a time
}

// countedSchema counts what a check visits: references can make that number
// exponential in the size of schema or value, and the library knows no deadline.
type countedSchema struct {
	schema *jsonschema.Schema
	left   int
}

// errTooComplex is thrown through the library when the count is used up.
var errTooComplex = errors.New("too complex to check against the schema")

// Visits allowed per check: a base and some per byte of the value.
const (
	schemaVisits        = 400_000
	schemaVisitsPerByte = 4
	maxIdleSchemas      = 64
)

// visit is hooked into every subschema as a keyword of a vocabulary. Its weight
// covers the children that end too early to be counted themselves.
type visit struct {
	owner  *countedSchema
	weight int
}

func (v visit) Validate(*jsonschema.ValidatorContext, any) {
	if v.owner.left -= v.weight; v.owner.left < 0 {
		panic(errTooComplex)
	}
}

func weigh(obj map[string]any) int {
	n := 1
	for _, v := range obj {
		switch v := v.(type) {
		case map[string]any:
			n += len(v)
		case []any:
			n += len(v)
		}
	}
	return n
}

// noLoader refuses what a schema refers to outside itself: the library's default
// would read files.
type noLoader struct{}

// outsideError is a reference that leaves the schema.
type outsideError struct{ url string }

func (e *outsideError) Error() string {
	return fmt.Sprintf("%q is outside the manifest and is not loaded, put the definition under $defs and refer to it as #/$defs/…", strictjson.Clip(e.url, 200))
}

func (noLoader) Load(url string) (any, error) { return nil, &outsideError{url} }

// schemaURL is in the form the library writes back when it resolves references.
const schemaURL = "manifest:///schema"

func init() { schema.Use(compiler{}) }

type compiler struct{}

// Validate implements schema.Compiler: JSON Schema of draft 2020-12 unless source names
// another draft by $schema.
func (compiler) Validate(source json.RawMessage) error {
	_, err := compile(source, nil)
	return err
}

// Compile implements schema.Compiler.
func (compiler) Compile(source json.RawMessage) (schema.Checker, error) {
	// The counting vocabulary loosens the check against the meta-schema, so that
	// comes first and without it.
	if _, err := compile(source, nil); err != nil {
		return nil, err
	}
	s := &checker{source: source}
	first, err := s.take()
	if err != nil {
		return nil, err
	}
	s.put(first)
	return s, nil
}

func compile(source json.RawMessage, counted *countedSchema) (out *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("not a usable schema: %v", r)
		}
	}()
	doc, err := strictjson.Decode(source)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if counted != nil {
		c.RegisterVocabulary(&jsonschema.Vocabulary{
			URL: "manifest:///count",
			Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
				return visit{counted, weigh(obj)}, nil
			},
		})
		c.AssertVocabs()
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	if out, err = c.Compile(schemaURL); err != nil {
		return nil, schemaProblem(err)
	}
	return out, nil
}

func (s *checker) take() (*countedSchema, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	c := &countedSchema{}
	var err error
	c.schema, err = compile(s.source, c)
	return c, err
}

func (s *checker) put(c *countedSchema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < maxIdleSchemas {
		s.idle = append(s.idle, c)
	}
}

func schemaProblem(err error) error {
	var outside *outsideError
	if errors.As(err, &outside) {
		return outside
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return &outsideError{load.URL}
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var ve *jsonschema.ValidationError
		if errors.As(invalid.Err, &ve) {
			return errors.New(describe(ve))
		}
	}
	return errors.New(strictjson.Clip(strings.ReplaceAll(err.Error(), schemaURL, ""), 300))
}

// Check validates a value from strictjson.Decode; size is the number of its bytes.
func (s *checker) Check(v any, size int) (err error) {
	c, err := s.take()
	if err != nil {
		return err
	}
	c.left = schemaVisits + schemaVisitsPerByte*size
	defer s.put(c)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the schema check failed: %v", r)
			if r == any(errTooComplex) {
				err = errTooComplex
			}
		}
	}()
	err = c.schema.Validate(v)
	var ve *jsonschema.ValidationError
	if errors.As(err, &ve) {
		return errors.New(describe(ve))
	}
	return err
}

// Bounds of the text of a failed check; it goes to a model.
const (
	maxCauses     = 5
	maxCauseBytes = 200
)

// describe names the places and rules of the first failures.
func describe(ve *jsonschema.ValidationError) string {
	var leaves []*jsonschema.ValidationError
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(leaves) > maxCauses {
			return
		}
		if len(e.Causes) == 0 {
			leaves = append(leaves, e)
			return
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(ve)
	var parts []string
	for i, leaf := range leaves {
		if i == maxCauses {
			parts = append(parts, "and more")
			break
		}
		rule := strings.Join(leaf.ErrorKind.KeywordPath(), "/")
		// Without its location the library's text is "at '': …".
		text := (&jsonschema.ValidationError{ErrorKind: leaf.ErrorKind}).Error()
		text = strictjson.Clip(strings.TrimPrefix(text, "at '': "), maxCauseBytes)
		if rule != "" {
			text += " (" + strictjson.Clip(rule, 60) + ")"
		}
		parts = append(parts, strictjson.Clip(strictjson.Pointer(leaf.InstanceLocation), 120)+": "+text)
	}
	return strings.ToValidUTF8(strings.Join(parts, "; "), "�")
}
