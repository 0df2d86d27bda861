package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) policyStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which policy is in force, and whether it is as new as its sources",
		Long: `Shows which policy is in force, where each part of it came from, and what keeps
something newer from being in force. The process that holds the data folder is asked;
when none does, the policy is loaded as a start would load it now, and nothing is kept.

The exit status is 1 when what is in force is not what its sources hold now: a file or
a bundle that cannot be used, or a server that does not answer.`,
		Example: `  awaken-host policy status
  awaken-host policy status -c host.toml -o json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              a.do(a.policyStatus),
	}
}

func (a *app) policyStatus(ctx context.Context, _ []string) error {
	st, err := standard.StatusOfPolicy(ctx, a.config, a.options())
	if err != nil {
		return err
	}
	if a.format == formatJSON {
		err = a.writeValue(st)
	} else {
		err = a.write([]byte(a.statusText(st)))
	}
	if err == nil && !st.Healthy() {
		return status(exitFailed)
	}
	return err
}

func (a *app) statusText(st *standard.PolicyStatus) string {
	var b strings.Builder
	t := &table{}
	t.add("revision", st.Revision)
	if st.PID > 0 {
		t.add("in force in", "process "+strconv.Itoa(st.PID)+" since "+st.Loaded.Format(time.RFC3339))
		t.add("looked", st.Checked.Format(time.RFC3339))
	} else {
		t.add("in force in", "no process; this is what a start would load now")
	}
	t.add("modules", strconv.Itoa(st.Modules))
	t.add("data files", strconv.Itoa(st.Data))
	if st.Tested {
		t.add("tests", "passed")
	}
	if st.Problem != "" {
		since := ""
		if st.Since != nil {
			since = " (since " + st.Since.Format(time.RFC3339) + ")"
		}
		t.add("problem", "what the sources hold now is not in force"+since+": "+st.Problem)
	}
	b.WriteString(t.render(a.width))
	for i := range st.Sources {
		b.WriteString("\n" + sourceTable(&st.Sources[i]).render(a.width))
	}
	return b.String()
}

func sourceTable(s *standard.PolicySource) *table {
	t := &table{}
	add := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	at := func(when *time.Time) string {
		if when == nil {
			return ""
		}
		return when.Format(time.RFC3339)
	}
	add(s.Kind, s.Name)
	if s.Kind != "bundle" {
		return t
	}
	if s.From != s.Name {
		add("from", s.From)
	}
	add("revision", s.Revision)
	add("sha256", s.SHA256)
	add("roots", strings.Join(quotedRoots(s.Roots), " "))
	signer := s.Signer
	if signer == "" {
		signer = "nobody: it is unsigned"
	}
	add("signed by", signer)
	add("etag", s.ETag)
	add("fetched", at(s.Fetched))
	if s.Restored {
		add("restored", "from the copy that an earlier process kept")
	}
	add("confirmed", at(s.Confirmed))
	add("checked", at(s.Checked))
	add("waiting", s.Waiting)
	add("problem", s.Problem)
	add("stale since", at(s.Stale))
	return t
}

// quotedRoots shows the root that stands for everything as what it is.
func quotedRoots(roots []string) []string {
	out := make([]string, len(roots))
	for i, r := range roots {
		out[i] = strconv.Quote(r)
	}
	return out
}
