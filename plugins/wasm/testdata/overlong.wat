;; Each export makes one call of the host, or few, that takes longer than any
;; timeout: the host looks whether the call has ended between the guest's
;; instructions, and these spend their time within one.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (memory (export "memory") 1600)
  (table funcref (elem $random_get))
  (type $random (func (param i32 i32) (result i32)))

  ;; a million pieces at 4096, each of them 64 MiB that begin at 16 MiB
  (func $pieces (param $each i32)
    (local $at i32)
    (local.set $at (i32.const 4096))
    (loop $next
      (i32.store (local.get $at) (i32.const 0x1000000))
      (i32.store offset=4 (local.get $at) (local.get $each))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 8004096)))))

  (func (export "one_line") (result i32)
    (call $pieces (i32.const 0x4000000))
    (call $fd_write (i32.const 2) (i32.const 4096) (i32.const 1000000) (i32.const 0)))

  (func (export "short_lines") (result i32)
    (local $at i32)
    (call $pieces (i32.const 0x4000000))
    (local.set $at (i32.const 0x1000000))
    (loop $next
      (i64.store (local.get $at) (i64.const 0x0a610a610a610a61))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 0x5000000))))
    (call $fd_write (i32.const 2) (i32.const 4096) (i32.const 1000000) (i32.const 0)))

  (func (export "random") (result i32)
    (loop $next
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (drop (call_indirect (type $random) (i32.const 0) (i32.const 0x5000000) (i32.const 0)))
      (br $next))
    (unreachable)))
