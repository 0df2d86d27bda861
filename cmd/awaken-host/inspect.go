package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// inspectionView is a module as -o json shows it.
type inspectionView struct {
	File      string       `json:"file"`
	Bytes     int          `json:"bytes"`
	SHA256    string       `json:"sha256"`
	ABI       string       `json:"abi"`
	Why       string       `json:"abi_because"`
	MadeBy    []string     `json:"made_by"`
	MemoryMin uint64       `json:"memory_min_bytes"`
	MemoryMax uint64       `json:"memory_max_bytes"`
	Start     bool         `json:"start_section"`
	Imports   []importView `json:"imports"`
	Exports   []exportView `json:"exports"`
	Notes     []string     `json:"notes"`
	Refused   string       `json:"refused,omitempty"`
	Manifest  string       `json:"manifest,omitempty"`
}

type importView struct {
	Module    string `json:"module"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Signature string `json:"signature,omitempty"`
	Offered   bool   `json:"offered"`
	Needs     string `json:"needs,omitempty"`
}

type exportView struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Signature string `json:"signature,omitempty"`
	Tool      bool   `json:"tool"`
}

func viewInspection(file string, i *standard.Inspection) inspectionView {
	v := inspectionView{
		File: file, Bytes: i.Bytes, SHA256: i.SHA256, ABI: string(i.ABI), Why: i.Why, MadeBy: append([]string{}, i.MadeBy...),
		MemoryMin: i.MemoryMin, MemoryMax: i.MemoryMax, Start: i.StartSection,
		Imports: []importView{}, Exports: []exportView{}, Notes: append([]string{}, i.Notes...), Manifest: i.Manifest,
	}
	for _, m := range i.Imports {
		v.Imports = append(v.Imports, importView(m))
	}
	for _, x := range i.Exports {
		v.Exports = append(v.Exports, exportView(x))
	}
	if i.Refused != nil {
		v.Refused = i.Refused.Error()
	}
	return v
}

func (a *app) inspectCommand() *cobra.Command {
	manifestOnly := false
	cmd := &cobra.Command{
		Use:   "inspect FILE.wasm",
		Short: "Show what a module imports, exports and needs, and a manifest that would run it",
		Long: `Reads a module without running it: what it imports and whether this host offers
that, what it exports and which of it can be a tool, its memory, and the ABI it seems
to be made for. At the end stands the smallest plugin.toml that would run it, to be
edited and signed. A module that cannot run here is explained, with status 2.`,
		Example: `  awaken-host plugin inspect count_vowels.wasm
  awaken-host plugin inspect count_vowels.wasm --manifest >plugin.toml`,
		Args: arguments(1, 1, "the module's file"),
	}
	cmd.Flags().BoolVar(&manifestOnly, "manifest", false, "print the manifest alone")
	cmd.RunE = a.do(func(_ context.Context, args []string) error {
		i, err := standard.InspectModule(args[0])
		if err != nil {
			return err
		}
		v := viewInspection(args[0], i)
		switch {
		case manifestOnly && i.Refused == nil:
			err = a.write([]byte(i.Manifest))
		case manifestOnly:
		case a.format == formatJSON:
			err = a.writeValue(v)
		default:
			err = a.write([]byte(renderInspection(v, a.width)))
		}
		if err != nil {
			return err
		}
		return i.Refused
	})
	return cmd
}

func renderInspection(v inspectionView, width int) string {
	var b strings.Builder
	head := &table{}
	head.add("module", v.File)
	head.add("size", fmt.Sprintf("%d bytes", v.Bytes))
	head.add("sha256", v.SHA256)
	head.add("made by", strings.Join(v.MadeBy, ", "))
	head.add("abi", v.ABI+": "+v.Why)
	memory := "none of its own"
	if v.MemoryMax > 0 {
		memory = fmt.Sprintf("starts with %d KiB, asks for at most %d MiB", v.MemoryMin>>10, v.MemoryMax>>20)
	}
	head.add("memory", memory)
	for _, n := range v.Notes {
		head.add("note", n)
	}
	b.WriteString(head.render(width))
	if len(v.Imports) > 0 {
		t := &table{header: []string{"IMPORT", "FROM", "TYPE", "HERE"}}
		for _, m := range v.Imports {
			here := "offered"
			if m.Needs != "" {
				here = "offered, does nothing without " + m.Needs
			}
			if !m.Offered {
				here = "NOT OFFERED"
			}
			t.add(m.Name, m.Module, typeOf(m.Kind, m.Signature), here)
		}
		b.WriteString("\n" + t.render(width))
	}
	if len(v.Exports) > 0 {
		t := &table{header: []string{"EXPORT", "TYPE", "USE"}}
		for _, x := range v.Exports {
			use := ""
			if x.Tool {
				use = "can be a tool"
			}
			t.add(x.Name, typeOf(x.Kind, x.Signature), use)
		}
		b.WriteString("\n" + t.render(width))
	}
	if v.Manifest != "" {
		b.WriteString("\nThe smallest plugin.toml that would run it:\n\n" + v.Manifest)
	}
	return b.String()
}

func typeOf(kind, signature string) string {
	if kind != "function" {
		return kind
	}
	params, results, _ := strings.Cut(signature, ">")
	if results == "" {
		return "(" + params + ")"
	}
	return "(" + params + ") -> " + results
}
