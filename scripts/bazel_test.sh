#!/usr/bin/env bash
# Builds the C++ folders and the overlay for XLA with Bazel and runs their tests. Arguments go to `bazel test`. Sets
# everything up: finds or installs a Bazel (scripts/find_bazel.sh) and fetches a compiled XLA. XLA_SHMEM_XLA=source
# builds XLA's sources instead (bazel/xla.bzl; takes hours, needs .bazelversion's Bazel and GitHub).
set -euo pipefail
cd "$(dirname "$0")/.."

found=$(scripts/find_bazel.sh --install)
mapfile -t options <<<"$found"
bazel=${options[0]}
options[0]=--jobs=2
if [ "${XLA_SHMEM_XLA:-prebuilt}" = source ]; then
  options+=(--config=source)
else
  # Bazel would fetch them too, but print nothing for minutes.
  scripts/find_xla.sh >/dev/null
  scripts/find_gtest.sh >/dev/null
fi
echo "bazel_test: $bazel ($("$bazel" --version)); .bazelversion asks for $(cat .bazelversion)"
# Not //...: it takes in every .venv* here, and packages of other projects have BUILD files too.
"$bazel" test "${options[@]}" "$@" //:all //bazel/... //tests/... //xla_patch/...
