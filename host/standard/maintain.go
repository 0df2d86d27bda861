package standard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/batch/badgerstore"
	"github.com/awaken-agents/awaken-host/host/config"
)

// ledgerFolder is where the store is, below data_dir.
const ledgerFolder = "ledger"

// Backup writes the ledger of file to w, as of one moment. No other process may
// hold the data folder. What was written is a backup only when Backup returns nil.
func Backup(ctx context.Context, file string, o Options, w io.Writer) error {
	cfg, _, err := existingLedger(file, o)
	if err != nil {
		return err
	}
	store, err := openStore(cfg, o.Logger)
	if err != nil {
		return err
	}
	return errors.Join(store.Backup(ctx, w), store.Close())
}

// Restore makes the ledger of file from a backup. The data folder must have none
// yet. After an error there is none either.
func Restore(ctx context.Context, file string, o Options, r io.Reader) error {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return err
	}
	dir := filepath.Join(cfg.DataDir, ledgerFolder)
	if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
		return setupError{fmt.Errorf("there is a ledger in %s already: move it away, or choose another data folder", dir)}
	}
	return badgerstore.Restore(ctx, dir, r)
}

// existingLedger is the folder of the store, which must be there.
func existingLedger(file string, o Options) (*config.Config, string, error) {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, "", err
	}
	dir := filepath.Join(cfg.DataDir, ledgerFolder)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, "", setupError{fmt.Errorf("there is no ledger in %s: nothing ran there yet, or data_dir is another one", cfg.DataDir)}
	} else if err != nil {
		return nil, "", err
	}
	return cfg, dir, nil
}

// DoctorReport is what Doctor found; see badgerstore.Doctor.
type DoctorReport = badgerstore.Report

// Doctor checks the ledger of file and, with repair, mends what can be. No other
// process may hold the data folder. The error is about what kept it from looking.
func Doctor(_ context.Context, file string, o Options, repair bool) (*DoctorReport, error) {
	_, dir, err := existingLedger(file, o)
	if err != nil {
		return nil, err
	}
	r, err := badgerstore.Doctor(dir, repair)
	if err == nil && r.Problems == nil {
		r.Problems = []badgerstore.Problem{} // a list, also when it is empty
	}
	return r, err
}
