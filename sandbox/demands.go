package sandbox

import "github.com/awaken-agents/awaken-host/plugins"

// toolDemands is what the manifest demands of the boundary.
func toolDemands(t *plugins.Tool) (Requirements, error) { return ParseRequirements(t.Spec.Require) }
