;; Is a program and not a library: after one run it would be closed.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
