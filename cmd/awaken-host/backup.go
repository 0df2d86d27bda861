package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) backupCommand() *cobra.Command {
	return a.onHost(&cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write the ledger to a file",
		Long: `Writes the ledger, everything that awaken-host runs and tickets show, to FILE, or
to standard output for -. Every record is verified on the way. FILE must not exist; it
appears when it is whole and on disk. What a pipe was given is a backup only if the
exit status is 0.

Your own files (the host file, policies, plugins, keys) are not part of it. No other
process may hold the data folder.`,
		Example: `  awaken-host backup ledger.bak
  awaken-host backup - | gzip > ledger.bak.gz`,
		Args: arguments(1, 1, "one file, or - for standard output"),
		RunE: a.do(func(ctx context.Context, args []string) error {
			if args[0] == "-" {
				return a.backupToPipe(ctx)
			}
			size, err := a.backupToFile(ctx, args[0])
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				return a.writeValue(struct {
					File  string `json:"file"`
					Bytes int64  `json:"bytes"`
				}{args[0], size})
			}
			a.tell("the ledger is in %s, %d bytes", args[0], size)
			return nil
		}),
	})
}

func (a *app) backupToPipe(ctx context.Context) error {
	if a.onTerminal {
		return usagef("a backup is no text: name a file, or send it to one")
	}
	// Not by write: that nobody reads on is no backup.
	return standard.Backup(ctx, a.config, a.options(), a.stdout)
}

// backupToFile writes beside the file, so that a file of its name is a whole backup
// whatever happens.
func (a *app) backupToFile(ctx context.Context, file string) (size int64, err error) {
	if _, err := os.Lstat(file); err == nil {
		return 0, usagef("%s is there already: choose another name", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, usageError{err}
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return 0, usageError{err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := standard.Backup(ctx, a.config, a.options(), f); err != nil {
		return 0, a.interrupted(ctx, err, "there is no backup")
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	if err := appear(f.Name(), file); err != nil {
		return 0, err
	}
	return size, errors.Join(f.Close(), syncFolder(filepath.Dir(file)))
}

// appear gives temp the name file. A link fails where a rename would replace what
// came there meanwhile, but not every file system has links.
func appear(temp, file string) error {
	switch err := os.Link(temp, file); {
	case err == nil:
		return os.Remove(temp)
	case errors.Is(err, fs.ErrExist):
		return usagef("%s is there already: choose another name", file)
	}
	return os.Rename(temp, file)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (a *app) restoreCommand() *cobra.Command {
	return a.onHost(&cobra.Command{
		Use:   "restore FILE|-",
		Short: "Make the ledger from a backup",
		Long: `Makes the ledger from a backup, which is verified as it is read. The data folder
must have no ledger yet: move an old one away. After a failure there is none.

Restore your own files first. What was unfinished at the time of the backup is
continued by the next awaken-host run, also where it went on after the backup: tools
are called again where policy lets them be.`,
		Example: `  awaken-host restore ledger.bak
  gunzip < ledger.bak.gz | awaken-host restore -`,
		Args: arguments(1, 1, "one file, or - for standard input"),
		RunE: a.do(func(ctx context.Context, args []string) error {
			in := a.stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError{err}
				}
				defer func() { _ = f.Close() }()
				in = f
			}
			if err := standard.Restore(ctx, a.config, a.options(), in); err != nil {
				return a.interrupted(ctx, err, "there is no ledger")
			}
			a.tell("the ledger is restored; see it with: %s", a.command("runs list"))
			return nil
		}),
	})
}
