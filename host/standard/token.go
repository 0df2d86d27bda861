package standard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/awaken-agents/awaken-host/host/config"
)

// token reads a credential anew each time it is needed, so that it can be replaced
// while the host runs.
func token(s config.SecretSource) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		switch {
		case s.Env != "":
			v, set := os.LookupEnv(s.Env)
			if !set {
				return "", fmt.Errorf("environment variable %s is not set", s.Env)
			}
			return v, nil
		case s.File != "":
			f, err := os.Open(s.File)
			if err != nil {
				return "", err
			}
			defer func() { _ = f.Close() }()
			raw, err := io.ReadAll(io.LimitReader(f, 64<<10))
			return strings.TrimRight(string(raw), "\r\n"), err
		}
		return "", errors.New("it comes from a command, which is not run for tokens; use a file or an environment variable")
	}
}
