#!/bin/sh
# build.sh OUT.wasm: builds the plugin that `awaken-host init` writes.
#
# The committed starter.wasm comes from Debian's clang and lld 14.0.6. The same
# versions give the same bytes in any folder; another compiler may not, so this
# script refuses it with status 3. Set CLANG to name another program of version 14.0.6.
set -eu

out=${1:?usage: build.sh OUT.wasm}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
want=14.0.6

clang=${CLANG:-}
if [ -z "$clang" ]; then
  clang=clang
  if command -v clang-14 >/dev/null 2>&1; then clang=clang-14; fi
fi
found=$("$clang" --version 2>/dev/null | sed -n 's/.*clang version \([0-9.]*\).*/\1/p') || found=
if [ "$found" != "$want" ]; then
  echo "build.sh: clang $want is needed, found ${found:-none}. To install it: apt-get install clang-14 lld-14" >&2
  exit 3
fi

exec "$clang" --target=wasm32 -std=c11 -Oz -g0 -ffreestanding -fno-builtin -fno-ident -nostdlib \
  -Wall -Wextra -Werror -I "$here/../../../examples/wasm-tools/include" \
  -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=16384 -Wl,--stack-first \
  -o "$out" "$here/starter.c"
