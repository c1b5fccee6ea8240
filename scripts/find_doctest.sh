#!/usr/bin/env bash
# Prints a directory with doctest/doctest.h; unpacks Debian's package under build/ if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
for directory in ${DOCTEST_INCLUDE_DIR:-} build/doctest/usr/include /usr/include /usr/local/include; do
  [ -f "$directory/doctest/doctest.h" ] && { realpath "$directory"; exit 0; }
done
scripts/unpack_debian.sh build/doctest doctest-dev >&2 || {
  echo "doctest not found: install it (Debian: apt install doctest-dev; Fedora: dnf install doctest-devel) or set" \
    "DOCTEST_INCLUDE_DIR" >&2
  exit 1
}
realpath build/doctest/usr/include
