package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) toolsCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:     "tools",
		Aliases: []string{"tool"},
		Short:   "See the tools of the configured plugins, and call one",
	}))
	cmd.AddCommand(a.toolsListCommand(), a.toolsInspectCommand(), a.toolsCallCommand())
	return cmd
}

// loadTools verifies the configured plugins and says what there is to say of them.
func (a *app) loadTools(ctx context.Context) ([]*standard.Tool, error) {
	snapshot, messages, err := standard.LoadTools(ctx, a.config, a.options())
	if err != nil {
		return nil, err
	}
	if !a.quiet {
		for _, m := range messages {
			a.say("%s", m)
		}
	}
	return snapshot.Tools(), nil
}

// toolView is a tool as -o json shows it.
type toolView struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Plugin      string `json:"plugin"`
	Version     string `json:"version"`
	Digest      string `json:"digest"` // of the manifest, or of the definitions in the host file
	TrustedBy   string `json:"trusted_by"`
	Signer      string `json:"signer,omitempty"`
	Dir         string `json:"dir"`
	ABI         string `json:"abi"`
	Target      string `json:"target"`
	// Require is what the tool demands of the sandbox that it runs in.
	Require      map[string]string `json:"require,omitempty"`
	Isolation    string            `json:"isolation"`
	Capability   string            `json:"recovery_capability"`
	Policy       string            `json:"recovery_policy"`
	Annotations  map[string]any    `json:"annotations"`
	Capabilities capabilitiesView  `json:"capabilities"`
	InputSchema  json.RawMessage   `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage   `json:"output_schema,omitempty"`
}

// capabilitiesView is what a plugin may use here: its manifest's wish, cut down by
// the operator.
type capabilitiesView struct {
	Hosts     []string          `json:"hosts"`
	Paths     map[string]string `json:"paths"`
	Commands  []string          `json:"commands"`
	Secrets   []string          `json:"secrets"`
	MemoryMiB int               `json:"memory_mib"`
	TimeoutMS int64             `json:"timeout_ms"`
}

func viewTool(t *standard.Tool) toolView {
	p, m, may := t.Plugin, t.Plugin.Manifest, t.Plugin.Effective
	v := toolView{
		Name: string(t.Name), Description: t.Spec.Description,
		Plugin: m.ID, Version: m.Version, Digest: p.Digest,
		TrustedBy: string(p.TrustedBy), Signer: p.Signer, Dir: p.Dir,
		ABI: string(m.Module.ABI), Target: string(t.Spec.Target), Require: t.Spec.Require, Isolation: string(t.Spec.Isolation),
		Capability: string(t.Spec.Recovery), Policy: string(t.Descriptor().Recovery),
		Annotations: map[string]any{},
		Capabilities: capabilitiesView{
			Hosts: []string{}, Paths: map[string]string{}, Commands: []string{}, Secrets: []string{},
			MemoryMiB: may.MemoryMiB, TimeoutMS: may.Timeout.Milliseconds(),
		},
		InputSchema: t.Spec.InputSchema, OutputSchema: t.Spec.OutputSchema,
	}
	maps.Copy(v.Annotations, t.Spec.Annotations)
	maps.Copy(v.Capabilities.Paths, may.Paths)
	v.Capabilities.Hosts = append(v.Capabilities.Hosts, may.Hosts...)
	v.Capabilities.Commands = append(v.Capabilities.Commands, may.Commands...)
	v.Capabilities.Secrets = append(v.Capabilities.Secrets, may.Secrets...)
	return v
}

func (a *app) toolsListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tools under the names a model sees",
		Long: `Lists the tools under the names a model sees. Every plugin is verified for it;
nothing is executed.`,
		Example: `  awaken-host tools list
  awaken-host tools list -o json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			tools, err := a.loadTools(ctx)
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				views := make([]toolView, 0, len(tools))
				for _, t := range tools {
					views = append(views, viewTool(t))
				}
				return a.writeValue(views)
			}
			out := &table{header: []string{"TOOL", "VERSION", "LANGUAGE", "RUNS IN", "RECOVERY", "TRUSTED BY", "DESCRIPTION"}, cut: true}
			for _, t := range tools {
				v := viewTool(t)
				out.add(v.Name, v.Version, annotation(t, "language"), v.Target, v.Policy, v.TrustedBy, v.Description)
			}
			return a.writeTable(out, "no plugin is configured: add a [[plugin]] to "+a.config)
		}),
	}
}

// findTool returns the tool that a model sees under name.
func (a *app) findTool(tools []*standard.Tool, name string) (*standard.Tool, error) {
	for _, t := range tools {
		if string(t.Name) == name {
			return t, nil
		}
	}
	hint := "see them with: " + a.command("tools list")
	if near := nearest(name, tools); near != "" {
		hint = "did you mean " + near + "? All of them: " + a.command("tools list")
	}
	return nil, usagef("there is no tool %q; %s", name, hint)
}

func nearest(name string, tools []*standard.Tool) string {
	best, least := "", 4
	for _, t := range tools {
		candidate := string(t.Name)
		if d := levenshtein.ComputeDistance(name, candidate); d < least {
			best, least = candidate, d
		}
		if best == "" && len(name) > 2 && strings.Contains(candidate, name) {
			best = candidate
		}
	}
	return best
}

func (a *app) toolsInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "inspect TOOL",
		Short:   "Show what a tool is, what it may use, and its schemas",
		Example: "  awaken-host tools inspect text__word_count",
		Args:    arguments(1, 1, "one tool name"),

		ValidArgsFunction: a.completeTools,
		RunE: a.do(func(ctx context.Context, args []string) error {
			tools, err := a.loadTools(ctx)
			if err != nil {
				return err
			}
			t, err := a.findTool(tools, args[0])
			if err != nil {
				return err
			}
			v := viewTool(t)
			if a.format == formatJSON {
				return a.writeValue(v)
			}
			return a.write([]byte(v.table().render(a.width)))
		}),
	}
}

func (v *toolView) table() *table {
	t := &table{}
	t.add("tool", v.Name)
	t.add("description", v.Description)
	if v.ABI == "" { // a tool of the host file has no module, and uses nothing
		t.add("declared in", v.Dir)
		t.add("definitions", "sha256 "+v.Digest)
		t.add("runs in", v.Target)
		v.addAnnotations(t)
		t.add("input", string(v.InputSchema))
		t.add("output", string(v.OutputSchema))
		return t
	}
	t.add("plugin", v.Plugin+" "+v.Version+" in "+v.Dir)
	trust := v.TrustedBy
	if v.Signer != "" {
		trust += " of key " + v.Signer
	}
	t.add("trusted by", trust)
	t.add("manifest", "sha256 "+v.Digest)
	t.add("abi", v.ABI)
	t.add("runs in", v.Target)
	for _, property := range slices.Sorted(maps.Keys(v.Require)) {
		t.add("requires", property+" = "+v.Require[property])
	}
	t.add("isolation", v.Isolation)
	t.add("recovery", v.Policy+" (the tool can promise "+v.Capability+")")
	v.addAnnotations(t)
	c := v.Capabilities
	t.add("memory", strconv.Itoa(c.MemoryMiB)+" MiB")
	t.add("timeout", strconv.FormatInt(c.TimeoutMS, 10)+" ms")
	t.add("hosts", strings.Join(c.Hosts, " "))
	paths := make([]string, 0, len(c.Paths))
	for _, p := range slices.Sorted(maps.Keys(c.Paths)) {
		paths = append(paths, p+" ("+c.Paths[p]+")")
	}
	t.add("paths", strings.Join(paths, " "))
	t.add("commands", strings.Join(c.Commands, " "))
	t.add("secrets", strings.Join(c.Secrets, " "))
	t.add("input", string(v.InputSchema))
	t.add("output", string(v.OutputSchema))
	return t
}

func (v *toolView) addAnnotations(t *table) {
	for _, k := range slices.Sorted(maps.Keys(v.Annotations)) {
		value, _ := json.Marshal(v.Annotations[k])
		t.add("annotation", k+" = "+string(value))
	}
}
