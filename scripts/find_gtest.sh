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
mkdir -p build/gtest/unpacked
(
  cd build/gtest/unpacked
  packages=(libgtest-dev libgmock-dev googletest)
  apt-get download -qq "${packages[@]}" || { apt-get update -qq && apt-get download -qq "${packages[@]}"; }
  for package in *.deb; do dpkg -x "$package" .; done
  mkdir -p ../include ../lib
  cp -r usr/include/gtest usr/include/gmock ../include
  cp usr/lib/*/*.a ../lib
) >&2 || {
  echo "GoogleTest not found: install it (Debian: apt-get install libgtest-dev libgmock-dev) or set GTEST_DIR" >&2
  exit 1
}
realpath build/gtest
