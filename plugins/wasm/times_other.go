//go:build unix && !linux

package wasm

import (
	"os"
	"syscall"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// setTimes sets the times of an open file, in nanoseconds of which microseconds are
// kept; UTIME_OMIT leaves one as it is.
func setTimes(f *os.File, atim, mtim int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st := sys.NewStat_t(info)
	if atim == experimentalsys.UTIME_OMIT {
		atim = st.Atim
	}
	if mtim == experimentalsys.UTIME_OMIT {
		mtim = st.Mtim
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	control := raw.Control(func(fd uintptr) {
		err = syscall.Futimes(int(fd), []syscall.Timeval{syscall.NsecToTimeval(atim), syscall.NsecToTimeval(mtim)})
	})
	if control != nil {
		return control
	}
	return err
}
