package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// InputSchemaID names the version of the input document. Additions keep it; a
// change that a policy could notice in another way gets the next number.
const InputSchemaID = "urn:awaken-host:policy-input:1"

// InputSchema is the JSON Schema (draft 7) of the document that policies see as
// input, indented, made from the type Input. It is also what the compiler checks
// policies against.
func InputSchema() json.RawMessage { return slices.Clone(inputSchema()) }

var inputSchema = sync.OnceValue(func() json.RawMessage {
	s := schemaOf(reflect.TypeFor[Input]())
	s.head = []member{
		{"$schema", "http://json-schema.org/draft-07/schema#"},
		{"$id", InputSchemaID},
		{"title", "Input of a policy of awaken-host"},
	}
	raw, err := s.MarshalJSON()
	if err != nil {
		panic(err) // the types are constant and a test writes them all
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		panic(err) // what was just written is JSON
	}
	return out.Bytes()
})

// inputSchemas puts the schema where OPA's compiler looks for that of input, and
// where an annotation of an operator's may name it (schema.input).
func inputSchemas() *ast.SchemaSet {
	var doc any
	if err := util.UnmarshalJSON(inputSchema(), &doc); err != nil {
		panic(err) // what was just written is JSON
	}
	ss := ast.NewSchemaSet()
	ss.Put(ast.SchemaRootRef, doc)
	ss.Put(ast.SchemaRootRef.Append(ast.StringTerm("input")), doc)
	return ss
}

// schema is a JSON Schema that keeps the order of what it is made from.
type schema struct {
	head       []member
	typ        string
	doc        string
	enum       []string
	properties []member // nil: none are fixed
	required   []string
	values     *schema // of a map; nil: anything
	items      *schema
}

// member is a member of a JSON object.
type member struct {
	name  string
	value any
}

// MarshalJSON writes what an object may have besides its fixed properties: nothing
// when there are some, since OPA takes any property for known where a schema allows
// more of them.
func (s *schema) MarshalJSON() ([]byte, error) {
	out := slices.Clone(s.head)
	if s.doc != "" {
		out = append(out, member{"description", s.doc})
	}
	out = append(out, member{"type", s.typ})
	if s.enum != nil {
		out = append(out, member{"enum", s.enum})
	}
	switch {
	case s.items != nil:
		out = append(out, member{"items", s.items})
	case s.properties != nil:
		out = append(out, member{"properties", members(s.properties)}, member{"required", s.required}, member{"additionalProperties", false})
	case s.values != nil:
		out = append(out, member{"additionalProperties", s.values})
	}
	return members(out).MarshalJSON()
}

type members []member

func (ms members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func schemaOf(t reflect.Type) *schema {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return &schema{typ: "object"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case t.Kind() == reflect.String:
		return &schema{typ: "string"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return &schema{typ: "integer"}
	case t.Kind() == reflect.Slice:
		return &schema{typ: "array", items: schemaOf(t.Elem())}
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface:
		return &schema{typ: "object"}
	case t.Kind() == reflect.Map:
		return &schema{typ: "object", values: schemaOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		s := &schema{typ: "object", properties: []member{}, required: []string{}}
		for i := range t.NumField() {
			f := t.Field(i)
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := schemaOf(f.Type)
			p.doc = f.Tag.Get("doc")
			if e := f.Tag.Get("enum"); e != "" {
				p.enum = strings.Split(e, ",")
			}
			s.properties = append(s.properties, member{name, p})
			if rest != "omitempty" || f.Tag.Get("schema") == "required" {
				s.required = append(s.required, name)
			}
		}
		return s
	}
	panic(fmt.Sprintf("policy: the input has a part of type %v, for which there is no schema", t))
}

// explainRef says what could have been meant by a name that is not there.
func explainRef(e *ast.Error, message string) string {
	d, ok := e.Details.(*ast.RefErrInvalidDetail)
	if !ok || len(d.Ref) == 0 || d.Pos >= len(d.Ref) || len(d.OneOf) == 0 {
		return message
	}
	have, ok := d.Ref[d.Pos].Value.(ast.String)
	if !ok {
		return message
	}
	var names []string
	for _, v := range d.OneOf {
		if s, ok := v.(ast.String); ok {
			names = append(names, string(s))
		}
	}
	message = fmt.Sprintf("%s has no %q", d.Ref[:d.Pos], string(have))
	if near := nearest(string(have), names, max(2, len(have)/2)); near != "" {
		return fmt.Sprintf("%s; did you mean %q?", message, near)
	}
	return message + "; it has " + strings.Join(names, ", ")
}
