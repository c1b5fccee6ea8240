#!/usr/bin/env bash
# Prints a clang that compiles for nvptx64; fails if there is none.
set -euo pipefail
for clang in clang $(compgen -c clang- | grep -E '^clang-[0-9]+$' | sort -Vu); do
  command -v "$clang" >/dev/null || continue
  if echo 'int f;' | "$clang" --target=nvptx64-nvidia-cuda -x c -S -o /dev/null - 2>/dev/null; then
    command -v "$clang"
    exit
  fi
done
echo "no clang with the target nvptx64 is installed (Debian: apt install clang)" >&2
exit 1
