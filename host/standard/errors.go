package standard

import (
	"errors"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
)

// ParseMessage reads an assistant message in any of the dialects.
func ParseMessage(data []byte) (*host.Message, error) { return host.ParseMessage(data) }

// setupError marks an error that the operator's files cause and only an edit of
// them cures.
type setupError struct{ error }

func (e setupError) Unwrap() error { return e.error }

// ExitCode is the exit status for an error of this package or of a Host: 0 for
// nil, 2 for what is wrong with usage, configuration, a plugin, the policy, or the
// submitted message or result, 1 for anything else.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var (
		setup setupError
		cfg   *config.Error
		load  *plugins.LoadError
	)
	if errors.As(err, &setup) || errors.As(err, &cfg) || errors.As(err, &load) {
		return 2
	}
	for _, usage := range []error{
		host.ErrMessage, batch.ErrBadID, batch.ErrInvalid, batch.ErrContent, batch.ErrOpen, batch.ErrStep, batch.ErrOwner, batch.ErrRecoveryPolicy,
		batch.ErrResult,
	} {
		if errors.Is(err, usage) {
			return 2
		}
	}
	return 1
}
