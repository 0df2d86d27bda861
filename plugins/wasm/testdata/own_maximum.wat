(module
  (memory 1 2)
  (func (export "run") (result i32)
    (if (i32.eq (memory.grow (i32.const 5)) (i32.const -1)) (then unreachable))
    (i32.const 0)))
