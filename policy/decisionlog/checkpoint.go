package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// clockSlack is how far the clocks of file system and host may be apart, and how far
// a run's last change may seem to lie before one of its decisions.
const clockSlack = 24 * time.Hour

// checkpoint says, on disk, what a sink may be owed after a stop: of decisions before
// Since nothing, and nothing at all when the process that wrote it ended in order.
type checkpoint struct {
	Since time.Time `json:"since"`
	Clean bool      `json:"clean"`
}

func checkpointFile(dir, sink string) string { return filepath.Join(dir, sink+".json") }

// readCheckpoint reports whether there is one. One that cannot be read is an error:
// what is owed is not known then.
func readCheckpoint(path string) (c checkpoint, there bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.Since.IsZero() {
		err = errors.New("has no time")
	}
	if err != nil {
		return c, false, fmt.Errorf("checkpoint of the decision log %s: %w; remove it to go on without what was not logged before now", path, err)
	}
	return c, true, nil
}

func writeCheckpoint(path string, c checkpoint) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replaceFile(path, append(raw, '\n'))
}

// Suspend is called by who makes decisions without the file or without the server: a
// later Open with them finds the decisions in the ledger. What never was is left so.
func Suspend(dir string, file, http bool) error {
	var errs []error
	for name, suspend := range map[string]bool{fileSink: file, httpSink: http} {
		if !suspend {
			continue
		}
		path := checkpointFile(dir, name)
		c, there, err := readCheckpoint(path)
		if err == nil && there && c.Clean {
			c.Clean = false
			err = writeCheckpoint(path, c)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
