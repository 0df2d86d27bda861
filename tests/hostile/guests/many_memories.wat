;; Has several memories, as limits are often held for each one alone.
(module
  (memory $a 400)
  (memory $b 400)
  (func (export "run") (result i32) (i32.const 0)))
