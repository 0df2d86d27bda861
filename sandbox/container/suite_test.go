package container

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func setup(t *testing.T, o Options) sandboxtest.Setup {
	return sandboxtest.Setup{Tier: newTier(t, o), Enforced: sandbox.PropertyNames}
}

func TestSuite(t *testing.T) {
	eachEngine(t, func(t *testing.T, o Options) {
		t.Parallel()
		sandboxtest.Suite(t, setup(t, o))
	})
}
