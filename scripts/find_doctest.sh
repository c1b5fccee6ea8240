#!/usr/bin/env bash
# Prints a directory with doctest/doctest.h; unpacks Debian's package under build/ (without root) if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
for directory in ${DOCTEST_INCLUDE_DIR:-} build/doctest/usr/include /usr/include /usr/local/include; do
  [ -f "$directory/doctest/doctest.h" ] && { realpath "$directory"; exit 0; }
done
mkdir -p build/doctest
(
  cd build/doctest
  apt-get download -qq doctest-dev || { apt-get update -qq && apt-get download -qq doctest-dev; }
  dpkg -x doctest-dev_*.deb .
) >&2 || {
  echo "doctest not found: install it (Debian: apt-get install doctest-dev) or set DOCTEST_INCLUDE_DIR" >&2
  exit 1
}
realpath build/doctest/usr/include
