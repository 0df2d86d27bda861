#!/bin/sh
# Calls, in a straight line of a hundred thousand calls, a function too small to be looked at.
echo '(module (memory 1) (func $small (f64.store (i32.const 0)'
printf '(f64.sqrt %.0s' $(seq 480)
echo '(f64.const 1)'
printf ')%.0s' $(seq 480)
echo ')) (func $line'
yes '(call $small)' | head -n 100000
echo ') (func (export "run") (result i32) (loop $again (call $line) (br $again)) (i32.const 0)))'
