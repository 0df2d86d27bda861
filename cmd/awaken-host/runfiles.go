package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsFilesCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "files",
		Short: "List, fetch and place the files that a run's calls have in their sandbox",
		Long: `A run's calls that run in a sandbox share a workspace, which they see at
/workspace. It is kept between the steps of the run, until the run is pruned. Names are
relative to it. Nothing is executed.`,
	})
	cmd.AddCommand(a.filesListCommand(), a.filesGetCommand(), a.filesPutCommand())
	return cmd
}

// withWorkspace opens the files of a run, and nothing else.
func (a *app) withWorkspace(ctx context.Context, run string, use func(*standard.Workspace) error) error {
	w, closer, err := standard.OpenWorkspace(ctx, a.config, standard.RunID(run), a.options())
	if err != nil {
		return err
	}
	defer func() {
		if err := closer.Close(); err != nil {
			a.say("closing: %v", err)
		}
	}()
	return use(w)
}

func (a *app) filesListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list RUN [FOLDER]",
		Short: "List the files of a run, or those below a folder of it",
		Example: `  awaken-host runs files list chat-7
  awaken-host runs files list chat-7 build -o json`,
		Args:              arguments(1, 2, "a run id and, if it is to be less than everything, a folder"),
		ValidArgsFunction: a.completeRuns,
		RunE: a.do(func(ctx context.Context, args []string) error {
			folder := ""
			if len(args) > 1 {
				folder = args[1]
			}
			return a.withWorkspace(ctx, args[0], func(w *standard.Workspace) error {
				files, err := w.List(ctx, folder)
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return a.writeValue(listed(files))
				}
				t := &table{header: []string{"NAME", "BYTES", "MODE", "CHANGED", "LINK"}, times: []int{3}}
				for _, f := range files {
					t.add(f.Path, strconv.FormatInt(f.Bytes, 10), f.Mode.String(), clock(f.ModTime), f.Link)
				}
				return a.writeTable(t, "run "+args[0]+" has no files there")
			})
		}),
	}
}

// listedFile is a file as -o json has it.
type listedFile struct {
	Path    string    `json:"path"`
	Type    string    `json:"type"` // "file", "folder", "link" or "other"
	Bytes   int64     `json:"bytes"`
	Mode    string    `json:"mode"` // permissions, octal
	ModTime time.Time `json:"mod_time"`
	Link    string    `json:"link,omitempty"`
}

func listed(files []standard.FileInfo) []listedFile {
	list := make([]listedFile, 0, len(files))
	for _, f := range files {
		kind := "other"
		switch f.Mode.Type() {
		case 0:
			kind = "file"
		case fs.ModeDir:
			kind = "folder"
		case fs.ModeSymlink:
			kind = "link"
		}
		list = append(list, listedFile{f.Path, kind, f.Bytes, fmt.Sprintf("%04o", f.Mode.Perm()), f.ModTime, f.Link})
	}
	return list
}

// maxOnTerminal is how much of a file is shown to a person.
const maxOnTerminal = 1 << 20

func (a *app) filesGetCommand() *cobra.Command {
	into := ""
	cmd := &cobra.Command{
		Use:   "get RUN NAME",
		Short: "Write a file of a run to standard output, or to a file",
		Long: `Writes a file of a run to standard output, or with -O to a file, which is then there
as a whole or not at all. A symbolic link is followed within the workspace.`,
		Example: `  awaken-host runs files get chat-7 report.txt
  awaken-host runs files get chat-7 build/app.tar -O app.tar`,
		Args:              arguments(2, 2, "a run id and the name of a file"),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVarP(&into, "output-file", "O", "", "the file to write")
	_ = cmd.MarkFlagFilename("output-file")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.withWorkspace(ctx, args[0], func(w *standard.Workspace) error {
			switch {
			case into != "":
				return getInto(ctx, w, args[1], into)
			case a.onTerminal:
				// What a terminal would obey is shown, not sent.
				b := &bounded{left: maxOnTerminal}
				if _, err := w.Get(ctx, args[1], b); err != nil {
					return err
				}
				return a.write([]byte(visibleText(b.String())))
			}
			_, err := w.Get(ctx, args[1], a.stdout)
			return err
		})
	})
	return cmd
}

// bounded is a buffer that refuses what is too much for a terminal.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("it is too large for a terminal: write it to a file with -O FILE")
	}
	return b.Buffer.Write(p)
}

// getInto replaces a file of this machine by one of a workspace.
func getInto(ctx context.Context, w *standard.Workspace, name, file string) error {
	out, err := os.CreateTemp(filepath.Dir(file), ".awaken-get-*")
	if err != nil {
		return err
	}
	_, err = w.Get(ctx, name, out)
	if err == nil {
		err = out.Chmod(0o644)
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return nil
}

func (a *app) filesPutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "put RUN FILE|- [NAME]",
		Short: "Place a file in the workspace of a run",
		Long: `Places a file in the workspace of a run, as a whole or not at all. Folders above it are
made, and a file of that name is replaced. Without NAME it keeps its own name.`,
		Example: `  awaken-host runs files put chat-7 data.csv
  awaken-host runs files put chat-7 data.csv input/data.csv
  date | awaken-host runs files put chat-7 - now.txt`,
		Args:              arguments(2, 3, "a run id, a file or -, and the name that it gets"),
		ValidArgsFunction: a.completeRuns,
		RunE: a.do(func(ctx context.Context, args []string) error {
			from := a.stdin
			mode := os.FileMode(0)
			name := filepath.Base(args[1])
			if len(args) > 2 {
				name = args[2]
			}
			if args[1] == "-" {
				if len(args) < 3 {
					return usagef("what comes from standard input has no name: add one")
				}
			} else {
				f, err := os.Open(args[1])
				if err != nil {
					return usagef("%v", err)
				}
				defer func() { _ = f.Close() }()
				info, err := f.Stat()
				if err != nil {
					return err
				}
				if !info.Mode().IsRegular() {
					return usagef("%s is no regular file", args[1])
				}
				from, mode = f, info.Mode().Perm()
			}
			return a.withWorkspace(ctx, args[0], func(w *standard.Workspace) error {
				counted := &counter{r: from}
				if err := w.Put(ctx, name, mode, counted); err != nil {
					return err
				}
				a.tell("%s of run %s: %d bytes", name, args[0], counted.n)
				return nil
			})
		}),
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
