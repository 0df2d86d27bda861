;; Makes two folders in the first one that it was granted, and fails.
(module
  (import "wasi_snapshot_preview1" "path_create_directory" (func $mkdir (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "ab")
  (func (export "two_folders") (result i32)
    (drop (call $mkdir (i32.const 3) (i32.const 16) (i32.const 1)))
    (drop (call $mkdir (i32.const 3) (i32.const 17) (i32.const 1)))
    (i32.const 1)))
