#!/bin/sh
# Very many functions, each of them small.
printf '(module (func (export "run") (result i32) (i32.const 0))\n'
awk 'BEGIN { for (i = 0; i < 400000; i++) print "(func)" }'
printf ')\n'
