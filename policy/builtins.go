package policy

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/open-policy-agent/opa/v1/ast"
	opaversion "github.com/open-policy-agent/opa/v1/version"
)

// shut are the built-ins a policy may not use unless the operator lists them,
// with why. Everything else computes on its arguments alone, or on the query's
// time, and gives the same answer for the same input.
var shut = map[string]string{
	"http.send":          "reaches the network",
	"net.lookup_ip_addr": "reaches the network",
	"json.match_schema":  "follows $ref to the network and to local files",
	"json.verify_schema": "follows $ref to the network and to local files",
	"opa.runtime":        "reads the host's environment",
	"rego.parse_module":  "compiles code while a call waits",
	"rand.intn":          "answers differently every time",
	"uuid.rfc4122":       "answers differently every time",
}

// capabilities are what policies may use with the given built-ins let in.
func capabilities(letIn []string) *ast.Capabilities {
	caps := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV1))
	caps.Builtins = slices.DeleteFunc(caps.Builtins, func(b *ast.Builtin) bool {
		_, isShut := shut[b.Name]
		return isShut && !slices.Contains(letIn, b.Name)
	})
	return caps
}

// checkBuiltins refuses names that OPA does not have.
func checkBuiltins(letIn []string) Problems {
	var problems Problems
	names := builtinNames()
	for _, b := range letIn {
		if slices.Contains(names, b) {
			continue
		}
		msg := fmt.Sprintf("builtins under [policy] in host.toml lists %q, which OPA %s does not have", b, opaversion.Version)
		if near := nearest(b, names, 4); near != "" {
			msg += fmt.Sprintf("; did you mean %q?", near)
		}
		problems = append(problems, Problem{Message: msg})
	}
	return problems
}

func builtinNames() []string {
	var names []string
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		if !strings.HasPrefix(b.Name, "internal.") {
			names = append(names, b.Name)
		}
	}
	return names
}

// needless names what is listed although every policy may use it.
func needless(letIn []string) []string {
	return slices.DeleteFunc(slices.Clone(letIn), func(b string) bool {
		_, isShut := shut[b]
		return isShut
	})
}

// explainShut rewrites the compiler's message for a built-in that is not let in.
func explainShut(msg string, letIn []string) string {
	name, ok := strings.CutPrefix(msg, "undefined function ")
	why, isShut := shut[name]
	if !ok || !isShut {
		return msg
	}
	quoted := []string{fmt.Sprintf("%q", name)}
	for _, b := range letIn {
		quoted = append(quoted, fmt.Sprintf("%q", b))
	}
	slices.Sort(quoted)
	return fmt.Sprintf("%s is not available to policies, because it %s; to let it in, write builtins = [%s] under [policy] in host.toml",
		name, why, strings.Join(slices.Compact(quoted), ", "))
}

// nearest returns the candidate closest to s within max edits, or "".
func nearest(s string, candidates []string, max int) string {
	best, at := "", max+1
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(s, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// runtimeTerm is what opa.runtime answers once it is let in; nil otherwise.
func runtimeTerm(letIn []string) *ast.Term {
	if !slices.Contains(letIn, "opa.runtime") {
		return nil
	}
	var env [][2]*ast.Term
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			env = append(env, [2]*ast.Term{ast.StringTerm(k), ast.StringTerm(v)})
		}
	}
	return ast.ObjectTerm(
		[2]*ast.Term{ast.StringTerm("env"), ast.ObjectTerm(env...)},
		[2]*ast.Term{ast.StringTerm("version"), ast.StringTerm(opaversion.Version)},
	)
}
