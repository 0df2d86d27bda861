package config

import "slices"

// Unsupported lists what is set and has no effect in this release, in order of
// lines. A Problem with Warning is harmless: the host does less than the setting
// says and nothing that it forbids. The others would be misleading or unsafe to
// ignore, and Check refuses them.
func (c *Config) Unsupported() []Problem {
	u := &unsupported{c: c}
	for i, p := range c.Plugins {
		u.plugin(element("plugin", i), p)
	}
	if c.lines["serve.bind"] != 0 || c.Serve != defaults().Serve {
		u.warn("serve.bind", "nothing listens in this release")
	}
	return inOrder(u.problems)
}

// Check refuses what would be misleading or unsafe to ignore. The error is an
// *Error. Load does the same.
func (c *Config) Check() error {
	if refused := c.refused(); len(refused) > 0 {
		return &Error{Problems: refused}
	}
	return nil
}

func (c *Config) refused() []Problem {
	return slices.DeleteFunc(c.Unsupported(), func(p Problem) bool { return p.Warning })
}

type unsupported struct {
	c        *Config
	problems []Problem
}

func (u *unsupported) add(p Problem) {
	p.File, p.Line = u.c.File, u.c.lines[p.Key]
	u.problems = append(u.problems, p)
}

func (u *unsupported) warn(key, what string) {
	u.add(Problem{Key: key, What: what, Remedy: "remove it, or keep it for a later release", Warning: true})
}

func (u *unsupported) plugin(key string, p Plugin) {
	if p.OCI != "" {
		u.add(Problem{Key: child(key, "oci"), What: "loading plugins from a registry is not available in this release",
			Remedy: `remove it and name a folder with path = "…"`})
	}
}
