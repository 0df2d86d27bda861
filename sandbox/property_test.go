package sandbox

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMergeBelievesTheWorse(t *testing.T) {
	for name, c := range map[string]struct{ inside, outside, want Finding }{
		"both unknown":          {Finding{}, Finding{}, Finding{}},
		"one knows":             {Finding{}, Finding{State: Enforced}, Finding{State: Enforced}},
		"the other knows":       {Finding{State: Enforced}, Finding{}, Finding{State: Enforced}},
		"one says no":           {Finding{State: Enforced}, Finding{State: NotEnforced, Detail: "d"}, Finding{State: NotEnforced, Detail: "d"}},
		"the other says no":     {Finding{State: NotEnforced, Detail: "d"}, Finding{State: Enforced}, Finding{State: NotEnforced, Detail: "d"}},
		"no beside unknown":     {Finding{}, Finding{State: NotEnforced}, Finding{State: NotEnforced}},
		"the level is kept":     {Finding{State: Enforced, Level: "none"}, Finding{State: NotEnforced}, Finding{State: NotEnforced, Level: "none"}},
		"the level is taken in": {Finding{State: Enforced}, Finding{State: Enforced, Level: "none"}, Finding{State: Enforced, Level: "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Properties{PropertyNetwork: c.inside}
			got := in.Merge(Properties{PropertyNetwork: c.outside})
			if got[PropertyNetwork] != c.want {
				t.Errorf("got %+v, want %+v", got[PropertyNetwork], c.want)
			}
			if in[PropertyNetwork] != c.inside {
				t.Error("Merge changed its receiver")
			}
		})
	}
	if got := Properties(nil).Merge(Properties{PropertyUser: {State: Enforced}}); got[PropertyUser].State != Enforced {
		t.Errorf("merged into nothing: %+v", got)
	}
}

func TestUnmet(t *testing.T) {
	all := Properties{}
	for _, p := range PropertyNames {
		all[p] = Finding{State: Enforced}
	}
	all[PropertyNetwork] = Finding{State: Enforced, Level: "none"}
	with := func(p Property, f Finding) Properties { m := maps.Clone(all); m[p] = f; return m }
	every := Requirements{
		PropertyFilesystem: "isolated", PropertyNetwork: "none", PropertyProcesses: "isolated", PropertyUser: "unprivileged",
		PropertyMemory: "limited", PropertyPIDs: "limited", PropertySyscalls: "filtered",
	}
	for name, c := range map[string]struct {
		demand Requirements
		have   Properties
		want   []string
	}{
		"nothing demanded":  {nil, nil, nil},
		"all met":           {every, all, nil},
		"unknown is unmet":  {Requirements{PropertyUser: "unprivileged"}, nil, []string{`user = "unprivileged" is demanded and unknown`}},
		"not enforced":      {Requirements{PropertyPIDs: "limited"}, with(PropertyPIDs, Finding{State: NotEnforced, Detail: "no cgroup", Remedy: "make one"}), []string{`pids = "limited" is demanded and not enforced (no cgroup): make one`}},
		"less than none":    {Requirements{PropertyNetwork: "none"}, with(PropertyNetwork, Finding{State: Enforced, Level: "allowlist"}), []string{`network = "none" is demanded and it is "allowlist"`}},
		"none for a list":   {Requirements{PropertyNetwork: "allowlist"}, all, nil},
		"the host's own":    {Requirements{PropertyNetwork: "allowlist"}, with(PropertyNetwork, Finding{State: NotEnforced, Level: "host"}), []string{`network = "allowlist" is demanded and not enforced`}},
		"a level of no one": {Requirements{PropertyNetwork: "none"}, with(PropertyNetwork, Finding{State: Enforced}), []string{`network = "none" is demanded and it is ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.demand.Unmet(c.have); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if n := len(every.Unmet(nil)); n != len(PropertyNames) {
		t.Errorf("%d of %d are unmet where nothing is known", n, len(PropertyNames))
	}
}

func TestParseRequirements(t *testing.T) {
	good := map[string]string{"network": "none", "filesystem": "isolated"}
	if r, err := ParseRequirements(good); err != nil || len(r) != 2 || r[PropertyNetwork] != "none" {
		t.Errorf("got %v, %v", r, err)
	}
	for _, c := range []struct{ name, word, want string }{
		{"netwark", "none", `"netwark" is no property of a sandbox: filesystem, network`},
		{"network", "host", `network cannot be "host": write "none" or "allowlist"`},
		{"user", "", `user cannot be "": write "unprivileged"`},
	} {
		if _, err := ParseRequirements(map[string]string{c.name: c.word}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: got %v, want %q", c.name, c.word, err, c.want)
		}
	}
}
