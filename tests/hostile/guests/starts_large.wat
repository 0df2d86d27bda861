;; Wants 4 GiB before its first instruction.
(module
  (memory 65536)
  (func (export "run") (result i32) (i32.const 0)))
