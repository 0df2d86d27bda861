package hand

import (
	"context"
	"errors"
	"io"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// operationKey is where the context of a call says which one it is.
type operationKey struct{}

func withOperation(ctx context.Context, op batch.OperationID) context.Context {
	return context.WithValue(ctx, operationKey{}, op)
}

// secret is read from the host, for each call anew, and is kept nowhere.
type secret struct {
	channel *sandbox.Channel
	name    string
}

// Resolve implements plugins.SecretSource.
func (s *secret) Resolve(ctx context.Context) ([]byte, error) {
	op, ok := ctx.Value(operationKey{}).(batch.OperationID)
	if !ok {
		return nil, errors.New("a secret is read on behalf of a call, and there is none")
	}
	stream, err := s.channel.Open(ctx, sandbox.MethodSecret, sandbox.SecretParams{Operation: op, Name: s.name})
	if err != nil {
		return nil, err
	}
	if err := stream.CloseWrite(); err != nil {
		return nil, err
	}
	value, err := io.ReadAll(io.LimitReader(stream, plugins.MaxSecretBytes+2))
	if err != nil {
		stream.Cancel(err)
		return nil, err
	}
	if err := stream.Result(nil); err != nil {
		return nil, err
	}
	return value, nil
}

// String implements plugins.SecretSource.
func (s *secret) String() string { return "the host" }
