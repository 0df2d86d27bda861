;; Opens a file of its first folder and gives it the largest number there is. What
;; comes of it is its status.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_renumber" (func $renumber (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "a")
  (func (export "renumber") (result i32)
    (local $errno i32)
    (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))
    (if (local.get $errno) (then (return (i32.add (i32.const 1000) (local.get $errno)))))
    (call $renumber (i32.load (i32.const 0)) (i32.const 0x7fffffff))))
