#!/usr/bin/env bash
# Writes our device math library (device_math.c) as bitcode, in the place of the name under which XLA looks for one.
# Usage: build_device_math.sh OUTPUT   Needs a clang with the target nvptx64, such as Debian's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
clang=$("$here/find_clang.sh")
"$clang" -x c -std=c11 --target=nvptx64-nvidia-cuda -nostdlib -ffreestanding -fno-builtin -fno-math-errno -O2 -Wall -Werror -emit-llvm \
  -c "$here/device_math.c" -o "$1"
