package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// TestKilledAtALogFile: a log without size is what SIGKILL leaves between two system
// calls, of its creation or of its deletion. It is no damage.
func TestKilledAtALogFile(t *testing.T) {
	for _, tt := range []struct {
		file   string
		closed bool // in order, so that the file is somebody else's doing
		ok     bool
	}{
		{file: "000099.vlog", ok: true},
		{file: "00099.mem", ok: true},
		{file: "000000.vlog", ok: true}, // there are later ones: it was being deleted
		{file: "00000.mem", ok: true},
		{file: "000099.vlog", closed: true},
	} {
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err == nil {
			err = s.Close()
		}
		if err == nil && !tt.closed {
			err = os.Remove(filepath.Join(dir, cleanFile))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, tt.file), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err = Open(dir, Options{})
		switch {
		case tt.ok && err != nil:
			t.Errorf("%+v: %v", tt, err)
		case !tt.ok && !errors.Is(err, batch.ErrCorrupt):
			t.Errorf("%+v: opened with %v", tt, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
