package namespace

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func suite(t *testing.T) sandboxtest.Setup {
	t.Helper()
	needBwrap(t)
	needCgroups(t)
	return sandboxtest.Setup{Tier: New(Options{}), Spec: sandbox.Spec{Network: sandbox.NetworkNone}, Enforced: sandbox.PropertyNames}
}

func TestSuite(t *testing.T)   { sandboxtest.Suite(t, suite(t)) }
func TestEscapes(t *testing.T) { sandboxtest.Escapes(t, suite(t)) }
