;; Never ends in its start function, before any export is called.
(module
  (func $spin (loop $again (br $again)))
  (func (export "run") (result i32) (i32.const 0))
  (start $spin))
