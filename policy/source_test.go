package policy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestPathsThatHoldNoPolicy(t *testing.T) {
	dir := folder(t, map[string]string{
		"empty/README.md":       "nothing here",
		"tests/a_test.rego":     "package a_test",
		"hidden/.policy.rego":   "package awaken.policy",
		"data/users.json":       `{"users": []}`,
		"notes.txt":             "allow contains \"x\"",
		"good/policy.rego":      "package awaken.policy\nallow contains \"x\"",
		"upper/policy.REGO.txt": "package awaken.policy",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	tests := []struct {
		name  string
		paths []string
		says  []string
	}{
		{"none", nil, []string{"paths under [policy] in host.toml"}},
		{"an empty one", []string{"", in("good")}, []string{"empty entry"}},
		{"a missing one", []string{in("good"), in("nope")}, []string{"nope", "no such file", "paths under [policy]"}},
		{"a folder without policies", []string{in("good"), in("empty")}, []string{"empty", "no .rego"}},
		{"a folder of tests", []string{in("tests")}, []string{"tests", "no .rego"}},
		{"a folder of hidden files", []string{in("hidden")}, []string{"hidden", "no .rego"}},
		{"only data", []string{in("data")}, []string{"only data"}},
		{"another kind of file", []string{in("notes.txt")}, []string{"notes.txt", "is not a policy"}},
		{"a test by name", []string{in("tests/a_test.rego")}, []string{"a_test.rego", "is not a policy"}},
		{"two at once", []string{in("nope"), in("notes.txt")}, []string{"nope", "notes.txt"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, allowAll)
			o.Paths = tt.paths
			got := problemsOf(t, o).Error()
			for _, s := range tt.says {
				if !strings.Contains(got, s) {
					t.Errorf("%q is not in %s", s, got)
				}
			}
		})
	}
}

func TestDataHangsWhereItsFolderIs(t *testing.T) {
	dir := folder(t, map[string]string{
		"policy.rego": `package awaken.policy
			allow contains "x" if {
				input.run.principal in data.teams.blue
				data.teams.size == 12345678901234567890
				data.limits.mib == 5
				data.deep.er.on == true
			}`,
		"teams/any-name.json":  `{"blue": ["alice"], "size": 12345678901234567890}`,
		"root.yaml":            "limits:\n  mib: 5\n",
		"deep/er/data.yml":     "on: true\n",
		"deep/er/.secret.json": `{"on": false}`,
		"policy_test.rego":     "not Rego",
	})
	o := options(t, allowAll)
	o.Paths = []string{dir}
	if d := decide(t, open(t, o), query("read", `{}`)); d.Outcome != batch.OutcomeAllow {
		t.Errorf("got %+v", d.Reasons)
	}
	// The same file reached twice is one.
	o.Paths = []string{dir, filepath.Join(dir, "root.yaml"), filepath.Join(dir, "..", filepath.Base(dir), "policy.rego")}
	open(t, o)
}

func TestDataThatDoesNotFit(t *testing.T) {
	policy := "package awaken.policy\nallow contains \"x\""
	tests := []struct {
		name  string
		files map[string]string
		says  string
	}{
		{"set twice", map[string]string{"a.json": `{"x": {"y": 1}}`, "b.json": `{"x": {"y": 1}}`}, "a.json sets too"},
		{"an object under a value", map[string]string{"a.json": `{"x": 1}`, "x/b.json": `{"y": 1}`}, "data.x"},
		{"the gate's own", map[string]string{"awaken/gate/d.json": `{"decision": {"outcome": "allow"}}`}, "data.awaken.gate is the host's own"},
		{"in place of the gate", map[string]string{"a.json": `{"awaken": {"gate": {"outcome": "allow"}}}`}, "data.awaken.gate is the host's own"},
		{"in place of everything", map[string]string{"a.json": `{"awaken": true}`}, "data.awaken must be an object"},
		{"where a rule is", map[string]string{"awaken/policy/d.json": `{"allow": ["x"]}`}, "allow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.files["policy.rego"] = policy
			o := options(t, allowAll)
			o.Paths = []string{folder(t, tt.files)}
			if got := problemsOf(t, o).Error(); !strings.Contains(got, tt.says) {
				t.Errorf("%q is not in %s", tt.says, got)
			}
		})
	}
}

// A policy behind a link is a policy: passing it over would lose its blocks.
func TestLinksAreFollowed(t *testing.T) {
	elsewhere := folder(t, map[string]string{
		"policy/block.rego": "package awaken.policy\nblock contains \"linked\"",
		"one.rego":          "package awaken.policy\nblock contains \"file\"",
	})
	dir := folder(t, map[string]string{"allow.rego": "package awaken.policy\nallow contains \"x\""})
	for link, to := range map[string]string{"more": filepath.Join(elsewhere, "policy"), "one.rego": filepath.Join(elsewhere, "one.rego")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := options(t, allowAll)
	o.Paths = []string{dir}
	if d := decide(t, open(t, o), query("read", `{}`)); codes(d) != "block block" {
		t.Errorf("got %+v", d.Reasons)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if got := problemsOf(t, o).Error(); !strings.Contains(got, "leads back to a folder") {
		t.Errorf("got %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "gone.rego"), filepath.Join(dir, "dangling.rego")); err != nil {
		t.Fatal(err)
	}
	if got := problemsOf(t, o).Error(); !strings.Contains(got, "dangling.rego") {
		t.Errorf("got %s", got)
	}
}

func TestRevision(t *testing.T) {
	files := map[string]string{
		"policy.rego": "package awaken.policy\nallow contains \"x\"",
		"d/data.json": `{"a": 1}`,
	}
	rev := func(files map[string]string, builtins ...string) string {
		t.Helper()
		r, err := Check(context.Background(), Options{Paths: []string{folder(t, files)}, Builtins: builtins})
		if err != nil {
			t.Fatal(err)
		}
		return r.Revision
	}
	with := func(name, text string) map[string]string {
		out := map[string]string{}
		for k, v := range files {
			out[k] = v
		}
		out[name] = text
		return out
	}
	base := rev(files)
	if len(base) != 64 || rev(files) != base {
		t.Errorf("in another folder: %s and %s", base, rev(files))
	}
	if rev(with("policy_test.rego", "package t")) != base {
		t.Error("a test changes the revision")
	}
	seen := map[string]string{base: "as it was"}
	for what, r := range map[string]string{
		"other rule":   rev(with("policy.rego", "package awaken.policy\nallow contains \"y\"")),
		"other data":   rev(with("d/data.json", `{"a": 2}`)),
		"more data":    rev(with("d/e.json", `{"b": 2}`)),
		"a built-in":   rev(files, "http.send"),
		"two built-in": rev(files, "http.send", "rand.intn"),
	} {
		if other, ok := seen[r]; ok {
			t.Errorf("%s has the revision of %s", what, other)
		}
		seen[r] = what
	}
	if rev(files, "rand.intn", "http.send") != rev(files, "http.send", "rand.intn", "http.send") {
		t.Error("the order of built-ins changes the revision")
	}

	var o Options
	sources := []source{{file: "p", name: "p.rego", raw: []byte("package awaken.policy")}}
	changed := baseModules()
	changed[0].raw = append([]byte("# changed\n"), changed[0].raw...)
	a, err := compile(context.Background(), &o, baseModules(), sources)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile(context.Background(), &o, changed, sources)
	if err != nil {
		t.Fatal(err)
	}
	if a.revision == b.revision {
		t.Error("another base policy has the same revision")
	}
}
