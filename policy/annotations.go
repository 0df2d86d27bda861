package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ownSchemas lets the compiler refuse schemas in annotations that it would read from
// elsewhere: a $ref reaches files and the network.
func ownSchemas(c *ast.Compiler) *ast.Compiler {
	return c.WithStageAfterID(ast.AllStages()[0], ast.CompilerStageDefinition{
		Name: "OwnSchemas", MetricName: "own_schemas",
		Stage: func(c *ast.Compiler) *ast.Error {
			for _, file := range slices.Sorted(maps.Keys(c.Modules)) {
				for _, a := range c.Modules[file].Annotations {
					for _, s := range a.Schemas {
						if s.Definition == nil {
							continue
						}
						if at := leadsAway(*s.Definition); at != "" {
							return ast.NewError(ast.CompileErr, a.Location, "the schema in this annotation has %s, which would be read from elsewhere; "+
								"write the schema out, with \"$ref\": \"#/definitions/…\" for its own parts", at)
						}
					}
				}
			}
			return nil
		},
	})
}

// leadsAway finds a reference of a schema to another document, or a name for it
// that references would be read against; "" if there is none.
func leadsAway(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			s, isText := v[k].(string)
			if isText && (k == "$id" || k == "id" || k == "$ref" && !strings.HasPrefix(s, "#")) {
				return fmt.Sprintf("%q: %q", k, clip(s, 80))
			}
			if at := leadsAway(v[k]); at != "" {
				return at
			}
		}
	case []any:
		for _, e := range v {
			if at := leadsAway(e); at != "" {
				return at
			}
		}
	}
	return ""
}
