package namespace

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	otherABI  = 0x40000000 // numbers of x32, the same calls once more
)

// allowedOlder are calls that other architectures have never had, since newer ones do
// the same.
var allowedOlder = []uint32{
	unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
	unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_GET_THREAD_AREA,
	unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_MKDIR, unix.SYS_PAUSE, unix.SYS_PIPE,
	unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SET_THREAD_AREA, unix.SYS_SIGNALFD,
	unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
}

// older adds the older forms of calls that are looked at.
func (f *filter) older() {
	f.when(unix.SYS_CHMOD, noneOf(1, setID))
	f.when(unix.SYS_CREAT, noneOf(1, setID))
	f.when(unix.SYS_MKNOD, noneOf(1, setID))
	f.when(unix.SYS_OPEN, notBoth(1, makesFiles, 2, setID))
}
