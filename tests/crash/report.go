package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/awaken-agents/awaken-host/batch"
)

// The report is prose, with the tables of a sweep in it.
//
//go:embed report.md.in
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// notRequested and published stand beside the phases of calls: the batch is not there
// yet, or has been published.
const (
	notRequested = "not requested"
	isPublished  = "published"
)

var reportPhases = []string{
	notRequested, string(batch.PhaseRequested), string(batch.PhaseAwaiting), string(batch.PhaseExecuting),
	string(batch.PhaseCompleted), string(batch.PhaseIndeterminate), isPublished,
}

func writeReport(name string, t *tally) error {
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, map[string]any{
		"Kills": t.kills, "Worlds": t.worlds, "Lives": t.lives, "Violations": len(t.violations),
		"Points": t.pointsTable(), "Stages": t.stagesTable(), "Phases": t.phasesTable(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644) // #nosec G306 -- a document to read
}

func row(b *strings.Builder, cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(b, "| %v ", c)
	}
	b.WriteString("|\n")
}

func (t *tally) pointsTable() string {
	var b strings.Builder
	row(&b, "killed", "just before it was acknowledged", "just after")
	b.WriteString("|---|---:|---:|\n")
	var names []string
	for name := range t.points {
		if name != effectPoint {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		row(&b, "at the commit of "+strings.ReplaceAll(name, "_", " "), t.points[name][0], t.points[name][1])
	}
	if p := t.points[effectPoint]; p != nil {
		row(&b, "in a tool, at its effect", p[0], p[1])
	}
	row(&b, "at a random time", t.random, "")
	return strings.TrimSuffix(b.String(), "\n")
}

func (t *tally) stagesTable() string {
	var b strings.Builder
	row(&b, "while the host was", "kills")
	b.WriteString("|---|---:|\n")
	for _, s := range []stage{"", stageOpening, stageRecovering, stageRunning, stageClosing} {
		name := string(s)
		if s == "" {
			name = "starting as a process"
		}
		row(&b, name, t.stages[s])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (t *tally) phasesTable() string {
	var b strings.Builder
	cells := []any{"kind of call"}
	for _, p := range reportPhases {
		cells = append(cells, p)
	}
	row(&b, cells...)
	b.WriteString("|---|" + strings.Repeat("---:|", len(reportPhases)) + "\n")
	var kinds []string
	for kind := range t.phases {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		cells := []any{kind}
		for _, p := range reportPhases {
			cells = append(cells, t.phases[kind][p])
		}
		row(&b, cells...)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
