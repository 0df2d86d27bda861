package standard

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// PolicyTests says which tests of which policy are run.
type PolicyTests struct {
	// File is the host file that names the policy and the built-ins let in. With
	// Optional it may be missing when Paths name a policy; then the defaults count.
	File     string
	Optional bool
	// Paths stand in place of the policy that File names. If they hold nothing but
	// tests, those are run beside its own.
	Paths []string

	Run      string // a regular expression on the tests' names; empty: all
	Trace    bool   // keep traces of what does not pass
	Coverage bool   // measure coverage
}

// PolicyTestReport is what came of tests.
type PolicyTestReport = policy.TestReport

// PolicyTestResult is what came of one test.
type PolicyTestResult = policy.TestResult

// PolicyCoverage is which lines of a policy were reached.
type PolicyCoverage = policy.Coverage

// The outcomes of tests.
const (
	PolicyTestPassed  = policy.TestPassed
	PolicyTestFailed  = policy.TestFailed
	PolicyTestErrored = policy.TestErrored
	PolicyTestSkipped = policy.TestSkipped
)

// TestPolicy runs the tests of a policy once. No ledger is opened, and nothing is
// executed.
func TestPolicy(ctx context.Context, t PolicyTests, o Options) (*PolicyTestReport, error) {
	to, err := t.options(o)
	if err != nil {
		return nil, err
	}
	r, err := policy.Test(ctx, to)
	return r, asSetup(ctx, err)
}

// WatchPolicyTests runs the tests now and whenever a file changes, until ctx is
// done, and hands on what came of it.
func WatchPolicyTests(ctx context.Context, t PolicyTests, o Options, show func(*PolicyTestReport, error) error) error {
	to, err := t.options(o)
	if err != nil {
		return err
	}
	return policy.WatchTests(ctx, to, func(r *PolicyTestReport, err error) error { return show(r, asSetup(ctx, err)) })
}

func (t *PolicyTests) options(o Options) (policy.TestOptions, error) {
	own, tests := policy.SplitTests(t.Paths)
	po, err := optionsOfPolicy(t.File, t.Optional && len(own) > 0, own, o)
	return policy.TestOptions{Policy: po, Tests: tests, Run: t.Run, Trace: t.Trace, Coverage: t.Coverage}, err
}

// optionsOfPolicy are those of the policy that a host file names, or of paths in its
// place.
func optionsOfPolicy(file string, optional bool, paths []string, o Options) (policy.Options, error) {
	cfg, err := LoadConfig(file, o)
	if _, statErr := os.Stat(file); err != nil && optional && errors.Is(statErr, fs.ErrNotExist) {
		cfg, err = config.Parse(file, []byte("version = 1\n"))
	}
	if err != nil {
		return policy.Options{}, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	po := policyOptions(cfg, &plugins.Registry{}, log)
	if len(paths) > 0 {
		po.Paths, po.Bundles = paths, nil
	}
	return po, nil
}

// asSetup marks an error that the operator's files cause, which an interruption is
// not.
func asSetup(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return setupError{err}
}
