#!/bin/sh
# A function with more locals than any program needs: bytes in, gigabytes in the compiler.
printf '(module (func (export "run") (result i32)\n'
awk 'BEGIN { for (i = 0; i < 60000; i++) print "(local i64)" }'
printf '(i32.const 0)))\n'
