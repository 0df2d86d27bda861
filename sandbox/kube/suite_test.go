package kube

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// Neither the network of the tests' cluster nor the number of a Pod's processes is
// limited; nobody claims so.
func setup(t *testing.T) sandboxtest.Setup {
	t.Helper()
	k := sandboxtest.NeedKube(t)
	return sandboxtest.Setup{
		Tier: New(Options{Kubeconfig: k.Kubeconfig, Namespace: k.Namespace, Image: k.Image, HandImage: sandboxtest.HandImage(t)}),
		Enforced: []sandbox.Property{
			sandbox.PropertyFilesystem, sandbox.PropertyProcesses, sandbox.PropertyUser, sandbox.PropertyMemory, sandbox.PropertySyscalls,
		},
	}
}

func TestSuite(t *testing.T)   { sandboxtest.Suite(t, setup(t)) }
func TestEscapes(t *testing.T) { sandboxtest.Escapes(t, setup(t)) }
