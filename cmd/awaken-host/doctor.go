package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) doctorCommand() *cobra.Command {
	repair := false
	cmd := a.onHost(&cobra.Command{
		Use:   "doctor",
		Short: "Check the ledger, and mend what can be",
		Long: `Checks everything in the ledger: that its files are whole, that every record can be
read, and that the records of a run agree with each other. The exit status is 1 when
something is wrong.

With --repair what can be mended without loss is. A run that is damaged is put aside
whole, in the folder quarantine of the ledger, and its name is kept, cancelled, so
that nothing it did is done again. What a repair would make worse is left alone:
restore it from a backup. Copy the data folder before you repair. No other process
may hold it.`,
		Example: `  awaken-host doctor
  awaken-host doctor --repair -o json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
	})
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what can be, put aside what cannot")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		r, err := standard.Doctor(ctx, a.config, a.options(), repair)
		if err != nil {
			return err
		}
		if err := a.writeReport(r); err != nil {
			return err
		}
		if r.Healthy() {
			return nil
		}
		left := 0
		for _, p := range r.Problems {
			if p.Done == "" {
				left++
			}
		}
		if repair {
			return fmt.Errorf("%s left in %s: restore it from a backup, with awaken-host restore", counted(left, "problem"), r.Dir)
		}
		return fmt.Errorf("%s in %s: copy the folder, then try: %s", counted(left, "problem"), r.Dir, a.command("doctor", "--repair"))
	})
	return cmd
}

func (a *app) writeReport(r *standard.DoctorReport) error {
	if a.format == formatJSON {
		return a.writeValue(r)
	}
	var b strings.Builder
	head := &table{}
	head.add("ledger", r.Dir)
	head.add("runs", strconv.Itoa(r.Runs))
	head.add("records", strconv.Itoa(r.Records))
	head.add("files", strconv.Itoa(r.Files))
	head.add("problems", strconv.Itoa(len(r.Problems)))
	for _, q := range r.Quarantine {
		head.add("put aside in", q)
	}
	b.WriteString(head.render(a.width))
	for _, p := range r.Problems {
		done := string(p.Done)
		if done == "" {
			done = "nothing"
		}
		t := &table{}
		t.add("where", p.Where)
		if p.Run != "" {
			t.add("run", string(p.Run))
		}
		t.add("what", p.What)
		t.add("means", p.Means)
		t.add("done", done)
		b.WriteString("\n" + t.render(a.width))
	}
	return a.write([]byte(b.String()))
}

// counted is a number with what it counts.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
