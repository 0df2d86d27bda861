package policy

import (
	"strings"
	"testing"
)

func warningsOf(t *testing.T, o Options) Problems {
	t.Helper()
	r, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Warnings
}

// Two values under the same conditions are refused; where they may meet, there is a
// warning, and where they cannot, there is none.
func TestOverlappingRules(t *testing.T) {
	use := "\nallow if level\n"
	for rules, says := range map[string]string{
		"level := 1\nlevel := 2": "error",
		"level := 1 if input.run.step > 1\nlevel := 2 if input.run.step > 1":                                "error",
		"level := 1 if input.run.step > 1\nlevel := 1 if input.run.step > 1":                                "",
		"level := 1\nlevel := 2 if input.run.step > 1":                                                      "level is 2 here and 1 at ",
		"default level := 1\nlevel := 2 if input.run.step > 1":                                              "",
		"level := 1 if input.run.step > 1\nelse := 2":                                                       "",
		"level := 1 if input.run.agent\nlevel := 2 if input.run.principal":                                  "level is 2 here and 1 at ",
		"level := 1 if input.run.agent\nlevel := 2 if not input.run.agent":                                  "",
		"level := 1 if input.run.agent == \"a\"\nlevel := 2 if input.run.agent == \"b\"":                    "",
		"level := 1 if input.run.agent == \"a\"\nlevel := 2 if \"b\" == input.run.agent":                    "",
		"level := 1 if input.run.agent == \"a\"\nlevel := 2 if input.run.agent != \"a\"":                    "",
		"level := 1 if input.run.agent == \"a\"\nlevel := 2 if input.run.agent != \"b\"":                    "level is 2",
		"level := 1 if input.run.agent == \"a\"\nlevel := 2 if input.run.principal == \"b\"":                "level is 2",
		"level := 1 if input.run.step < 5\nlevel := 2 if input.run.step >= 5":                               "",
		"level := 1 if input.run.step < 5\nlevel := 2 if not input.run.step < 5":                            "",
		"level := 1 if input.run.step <= 5\nlevel := 2 if input.run.step >= 5":                              "level is 2",
		"level := 1 if 5 > input.run.step\nlevel := 2 if input.run.step > 5":                                "",
		"level := 1 if input.run.step < 5\nlevel := 2 if input.run.step == 7":                               "",
		"level := 1 if input.run.step == 4\nlevel := 2 if input.run.step < 5":                               "level is 2",
		"level := input.run.step if input.run.agent\nlevel := 2 if input.run.principal":                     "", // not known before a call
		"f(\"a\") := 1\nf(\"b\") := 2\nlevel := f(input.run.agent)":                                         "",
		"f(x) := 1 if x > 3\nf(x) := 2 if x > 4\nlevel := f(input.run.step)":                                "f is 2 here and 1 at ",
		"f(x) := 1 if x.a > 3\nf(x) := 2 if x.a <= 3\nlevel := f(input.call.arguments)":                     "",
		"level := true if input.run.agent\nlevel := false if input.run.principal":                           "level is false here and true at ",
		"level contains 1 if input.run.agent\nlevel contains 2 if input.run.principal":                      "",
		"level.a := 1 if input.run.agent\nlevel.b := 2 if input.run.principal":                              "",
		"level := 1 if {\n\tinput.run.agent\n\tnot late\n}\nlevel := 2 if late\nlate if input.run.step > 9": "",
	} {
		t.Run(rules, func(t *testing.T) {
			o := options(t, rules+use)
			if says == "error" {
				if got := problemsOf(t, o); !strings.Contains(got[0].Message, "under the same conditions") || got[0].Line != 3 {
					t.Errorf("got %v", got)
				}
				return
			}
			ws := warningsOf(t, o)
			switch {
			case says == "" && len(ws) > 0:
				t.Errorf("got %v", ws)
			case says != "" && (len(ws) != 1 || !strings.Contains(ws[0].Message, says) || ws[0].Line == 0):
				t.Errorf("got %v, want %q", ws, says)
			}
		})
	}
}

func TestUnusedRules(t *testing.T) {
	for files, says := range map[string]string{
		"package awaken.policy\nallow if small\nsmall if input.run.step < 3":              "",
		"package awaken.policy\nallow if input.tool.id\nsmall if input.run.step < 3":      "policy.rego:3:1: rule awaken.policy.small is used by nothing",
		"package awaken.policy\nallow if input.tool.id\nf(x) if x > 2\nf(x) if x < 1":     "policy.rego:3:1: rule awaken.policy.f is used by nothing",
		"package awaken.policy\nallow if levels.a\nlevels.a := 1\nlevels.b := 2":          "rule awaken.policy.levels.b is used by nothing",
		"package awaken.policy\nallow if levels\nlevels.a := 1\nlevels.b := 2":            "",
		"package awaken.policy\nallow if some k; levels[k]\nlevels.a := 1\nlevels.b := 2": "",
		"package awaken.policy\nallow if not input.call.arguments[name]\nname := \"x\"":   "",
	} {
		files = strings.Replace(files, "allow if some k; levels[k]", "allow if {\n\tsome k\n\tlevels[k]\n}", 1)
		t.Run(files, func(t *testing.T) {
			ws := warningsOf(t, options(t, files))
			if got := ws.Error(); says == "" && len(ws) > 0 || says != "" && !strings.Contains(got, says) || len(ws) > 1 {
				t.Errorf("got %v", ws)
			}
		})
	}
	o := options(t, allowAll)
	o.Paths = []string{folder(t, map[string]string{
		"a.rego": "package awaken.policy\nimport data.team\nallow if team.small",
		"b.rego": "package team\nsmall if input.run.step < 3\nlarge if input.run.step > 9",
		"c.rego": "package system.log\nmask contains \"/input/x\"",
	})}
	if ws := warningsOf(t, o); len(ws) != 1 || !strings.Contains(ws[0].Message, "rule team.large is used by nothing") {
		t.Errorf("got %v", ws)
	}
}
