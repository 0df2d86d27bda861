//go:build unix && !linux

package sandbox

import "errors"

func keepAll() error { return errors.ErrUnsupported }
