#!/usr/bin/env bash
# Prints a directory with GoogleTest as include/gtest, include/gmock and lib/*.a; unpacks Debian's packages under build/
# (without root) if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
for directory in ${GTEST_DIR:-} build/gtest /usr /usr/local; do
  [ -f "$directory/include/gmock/gmock.h" ] || continue
  for lib in "$directory/lib" "$directory/lib/$(uname -m)-linux-gnu"; do
    [ -f "$lib/libgtest.a" ] && [ -f "$lib/libgmock.a" ] && { realpath "$directory"; exit 0; }
  done
done
scripts/unpack_debian.sh build/gtest/unpacked libgtest-dev libgmock-dev googletest >&2 || {
  echo "GoogleTest not found: install it (Debian: apt-get install libgtest-dev libgmock-dev) or set GTEST_DIR" >&2
  exit 1
}
mkdir -p build/gtest/include build/gtest/lib
cp -r build/gtest/unpacked/usr/include/gtest build/gtest/unpacked/usr/include/gmock build/gtest/include
cp build/gtest/unpacked/usr/lib/*/*.a build/gtest/lib
realpath build/gtest
