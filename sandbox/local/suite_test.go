package local

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func suite() sandboxtest.Setup {
	return sandboxtest.Setup{Tier: New(Options{}), Spec: sandbox.Spec{Network: sandbox.NetworkNone}}
}

func TestSuite(t *testing.T)   { sandboxtest.Suite(t, suite()) }
func TestEscapes(t *testing.T) { sandboxtest.Escapes(t, suite()) }
