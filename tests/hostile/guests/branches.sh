#!/bin/sh
# A jump with a million targets, each of which the compiler looks at several times.
printf '(module (func (export "run") (result i32) (block (br_table\n'
awk 'BEGIN { for (i = 0; i < 1000000; i++) print "0" }'
printf '(i32.const 0))) (i32.const 0)))\n'
