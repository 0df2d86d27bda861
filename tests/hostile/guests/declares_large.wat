;; Declares that it may grow to 4 GiB, and then does.
(module
  (memory 1 65536)
  (func (export "run") (result i32)
    (loop $again (br_if $again (i32.ne (memory.grow (i32.const 64)) (i32.const -1))))
    unreachable))
