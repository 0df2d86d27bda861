;; Has a data segment that begins inside its memory and ends outside.
(module
  (memory 1)
  (data (i32.const 65530) "more than fits")
  (func (export "run") (result i32) (i32.const 0)))
