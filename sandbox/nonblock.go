package sandbox

import "syscall"

// openNonblock keeps the opening of a pipe from waiting for somebody at its other end.
const openNonblock = syscall.O_NONBLOCK
