// Package schema is where JSON Schemas of manifests are compiled, by whatever compiler
// the program links: package jsonschema. A program that has nothing to check, such as
// the Hand, links none: the library beneath takes milliseconds to initialize, which
// every start of it would wait for.
package schema

import (
	"encoding/json"
	"errors"
)

// Compiler makes checkers of JSON Schemas. It is safe for concurrent use, loads nothing
// from anywhere, and its errors are short.
type Compiler interface {
	// Validate reports what keeps source from being compiled.
	Validate(source json.RawMessage) error
	Compile(source json.RawMessage) (Checker, error)
}

// Checker checks a value, as strictjson.Decode reads it from size bytes, in bounded
// time. The error names places and rules, and is fit for a model. It is safe for
// concurrent use.
type Checker interface {
	Check(v any, size int) error
}

var linked Compiler

// Use has Validate and Compile use c. It is for the initialization of packages.
func Use(c Compiler) { linked = c }

// ErrNoCompiler reports that this program cannot check anything against a schema, so it
// takes no tool that has one.
var ErrNoCompiler = errors.New("this program checks no JSON Schemas")

// Validate reports what keeps source from being used as a schema.
func Validate(source json.RawMessage) error {
	if linked == nil {
		return ErrNoCompiler
	}
	return linked.Validate(source)
}

// Compile compiles a schema.
func Compile(source json.RawMessage) (Checker, error) {
	if linked == nil {
		return nil, ErrNoCompiler
	}
	return linked.Compile(source)
}
