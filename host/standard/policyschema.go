package standard

import (
	"encoding/json"

	"github.com/awaken-agents/awaken-host/policy"
)

// PolicySchema is the JSON Schema of what policies see as input, indented.
func PolicySchema() json.RawMessage { return policy.InputSchema() }
