package secrets

import (
	"context"
	"errors"
	"os"
)

// Env is an environment variable of the host, by name.
type Env string

// Resolve implements plugins.SecretSource.
func (e Env) Resolve(context.Context) ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return []byte(os.Getenv(string(e))), nil
}

// Check reports whether the variable is not set.
func (e Env) Check() error {
	if _, set := os.LookupEnv(string(e)); !set {
		return errors.New("it is not set: start the host with it")
	}
	return nil
}

// String implements plugins.SecretSource.
func (e Env) String() string { return "environment variable " + string(e) }
