(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (table $t 1 funcref)
  (table $u 1 externref)
  ;; answers 1 when either table may grow by more than the host allows
  (func (export "run") (result i32)
    (local $at i64) (local $granted i32)
    (local.set $granted (i32.or
      (i32.ne (table.grow $t (ref.null func) (i32.const 200000000)) (i32.const -1))
      (i32.ne (table.grow $u (ref.null extern) (i32.const 200000000)) (i32.const -1))))
    (local.set $at (call $alloc (i64.const 1)))
    (call $store (local.get $at) (i32.add (i32.const 48) (local.get $granted)))
    (call $output (local.get $at) (i64.const 1))
    (i32.const 0))
  ;; cannot do without
  (func (export "insist") (result i32)
    (if (i32.eq (table.grow $t (ref.null func) (i32.const 200000000)) (i32.const -1)) (then unreachable))
    (i32.const 0)))
