package badgerstore_test

import (
	"log/slog"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/badgerstore"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

func open(t testing.TB, dir string, o badgerstore.Options) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// testLogger sends what is worth a warning to the test's log.
func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func TestContract(t *testing.T) {
	for name, o := range map[string]badgerstore.Options{"sync": {}, "nosync": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) (batch.Store, func() batch.Store) {
				o.Logger = testLogger(t)
				dir := t.TempDir()
				s := open(t, dir, o)
				return s, func() batch.Store {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					s = open(t, dir, o)
					return s
				}
			})
		})
	}
}
