package decisionlog

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkLog is what a decision pays for its line, without the mask's evaluation.
func BenchmarkLog(b *testing.B) {
	for name, c := range map[string]struct {
		sync bool
		mask json.RawMessage
	}{
		"file":        {false, nil},
		"file-masked": {false, json.RawMessage(`["/input/call/arguments/p"]`)},
		"file-synced": {true, nil},
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			l, err := Open(b.Context(), Options{
				Dir: filepath.Join(dir, "state"), File: &File{Path: filepath.Join(dir, "d"), Sync: c.sync},
				Ledger: noRuns{}, Masker: masker(c.mask),
			})
			if err != nil {
				b.Fatal(err)
			}
			r, call := record("r/1/0"), call(`{"p":"hunter2","text":"a few words of arguments"}`)
			r.Time = time.Now().Add(time.Second)
			for n := 0; b.Loop(); n++ {
				r.Seq = n
				l.Begin(b.Context(), r)
				if err := l.Log(b.Context(), r, call); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

type noRuns struct{ Ledger }

type masker json.RawMessage

func (m masker) LogMask(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(m), nil
}
