;; Never ends, in single instructions that each touch all of its memory.
(module
  (memory 256)
  (func (export "run") (result i32)
    (loop $again
      (memory.fill (i32.const 0) (i32.const 7) (i32.const 16777216))
      (br $again))
    (i32.const 0)))
