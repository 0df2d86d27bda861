package standard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// Names of package sandbox that callers need.
type (
	// Workspace is the files of a run that its calls see at /workspace in their sandbox.
	Workspace = sandbox.Files
	// FileInfo is one file of a Workspace.
	FileInfo = sandbox.FileInfo
)

// OpenWorkspace opens the files of a run that file describes the host of. No other
// process may hold the data folder; nothing is executed. The caller closes the Closer.
func OpenWorkspace(ctx context.Context, file string, run RunID, o Options) (*Workspace, io.Closer, error) {
	cfg, _, err := existingLedger(file, o)
	if err != nil {
		return nil, nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := openStore(cfg, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (*Workspace, io.Closer, error) { return nil, nil, errors.Join(err, store.Close()) }
	r, err := store.Run(ctx, run)
	if err != nil {
		return fail(err)
	}
	s := &sandboxes{cfg: cfg, store: store, known: &plugins.Redactor{}, log: o.Logger}
	if !s.begun() {
		return fail(fmt.Errorf("run %s: %w: nothing ran in a sandbox yet", run, sandbox.ErrNoEnvironment))
	}
	m, err := s.open()
	if err != nil {
		return fail(err)
	}
	files, err := m.Files(sandbox.SessionOf(r.ID, r.CreatedAt))
	if err != nil {
		return fail(errors.Join(err, closeSandboxes(m)))
	}
	return files, closer(func() error { return errors.Join(closeSandboxes(m), store.Close()) }), nil
}

type closer func() error

func (c closer) Close() error { return c() }
