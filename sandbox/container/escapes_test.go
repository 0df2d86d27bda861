package container

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func TestEscapes(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		sandboxtest.Escapes(t, setup(t, o))
	})
}
