(module
  (func $down (param i64) (result i64)
    (i64.add (local.get 0) (call $down (i64.add (local.get 0) (i64.const 1)))))
  (func (export "run") (result i32) (i32.wrap_i64 (call $down (i64.const 0)))))
