;; Has the host write one line of a million pieces of 8 MiB, in one request that would take hours.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256)
  (func (export "run") (result i32)
    (local $at i32)
    (local.set $at (i32.const 4096))
    (loop $next
      (i32.store (local.get $at) (i32.const 0x800000))
      (i32.store offset=4 (local.get $at) (i32.const 0x800000))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 8004096))))
    (call $fd_write (i32.const 2) (i32.const 4096) (i32.const 1000000) (i32.const 0))))
