package wasm

import "syscall"

// mountedReadOnly is ST_RDONLY of statfs(2), which speaks of the mount.
const mountedReadOnly = 1

// readOnly reports whether dir is on a mount that cannot be written through.
func readOnly(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Flags)&mountedReadOnly != 0
}
