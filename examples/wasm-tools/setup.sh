#!/bin/sh
# Installs the toolchains of the example tools on a Debian machine, as root. For
# build machines: `make` calls it only with CI=true. Quick when all is there.
set -eu

packages=
need() { # need PROBE PACKAGE...: the packages, when the probe fails
  probe=$1
  shift
  if ! sh -c "$probe" >/dev/null 2>&1; then packages="$packages $*"; fi
}

need "command -v make" make
need "command -v clang && command -v wasm-ld" clang lld
need "test -e /usr/lib/wasm32-wasi/libc.a" wasi-libc
need "ls /usr/lib/llvm-14/lib/clang/14*/lib/wasi/libclang_rt.builtins-wasm32.a" libclang-rt-14-dev-wasm32
need "test -x /usr/bin/rustc" rustc
need "ls -d /usr/lib/rustlib/wasm32-unknown-unknown" libstd-rust-dev-wasm32
need "command -v wat2wasm" wabt
need "command -v wasm-opt" binaryen
need "command -v minisign" minisign
need "command -v node" nodejs
need "command -v npm" npm

if [ -z "$packages" ]; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "setup.sh: these Debian packages are missing:$packages. Install them as root: apt-get install$packages" >&2
  exit 1
fi
echo "setup.sh: installing$packages" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $packages >&2 || {
  apt-get update >&2
  apt-get install -y --no-install-recommends $packages >&2
}
