//go:build !linux

package sandbox

import "os"

func syncData(f *os.File) error { return f.Sync() }
