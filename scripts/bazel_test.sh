#!/usr/bin/env bash
# Builds the C++ folders and the overlay for XLA with Bazel and runs their tests. Arguments go to `bazel test`.
# BAZEL_TARGETS chooses targets. Sets everything up: finds or installs a Bazel (scripts/find_bazel.sh) and
# fetches a compiled XLA:GPU (scripts/find_xla.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

found=$(scripts/find_bazel.sh --install)
mapfile -t options <<<"$found"
bazel=${options[0]}
options[0]=--jobs=2
startup=()
# Debian's does not know --noenable_bzlmod.
[[ $found == *--noenable_bzlmod* ]] || startup=(--noworkspace_rc --bazelrc=bazel/common.bazelrc)
# Bazel would fetch them too, but print nothing for minutes.
scripts/find_xla.sh >/dev/null
scripts/find_gtest.sh >/dev/null
# GCC 12 does not compile XLA's futures, which clang does; jax is built with clang too.
if [ -z "${CC:-}" ]; then
  CC=$(compgen -c clang- | grep -E '^clang-[0-9]+$' | sort -V | tail -n 1 || command -v clang || true)
  [ -n "$CC" ] || { echo "bazel_test: no clang here; install one of release 16 or newer (Debian: apt-get install clang-19)" >&2; exit 1; }
  export CC
fi
echo "bazel_test: $bazel ($("$bazel" --version)), $CC; .bazelversion asks for $(cat .bazelversion)"
# Not //...: it takes in every .venv* here, and packages of other projects have BUILD files too.
read -ra targets <<<"${BAZEL_TARGETS:-//:all //bazel/... //tests/... //xla_patch/...}"
"$bazel" "${startup[@]}" test "${options[@]}" "$@" "${targets[@]}"
