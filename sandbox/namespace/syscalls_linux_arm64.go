package namespace

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	otherABI  = 0 // there is no other
)

// allowedOlder are calls that this architecture has under a name of its own.
var allowedOlder = []uint32{}

// older has nothing to add: this architecture has the newer forms only.
func (*filter) older() {}
