#!/usr/bin/env bash
# Runs the end-to-end tests, those of the real XLA:GPU compiler and those on emulated GPUs, without the slow ones, on the
# supported JAX releases, each in an environment of its own. Names and skips a release whose Python is not on this
# machine, and fails only if no release could run. COMPAT_RELEASES="0.10.2 0.11.2" runs only these releases,
# COMPAT_TESTS="tests/bindings" only these tests.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra tests <<<"${COMPAT_TESTS:-tests/e2e tests/python tests/bindings tests/gpu_aot tests/gpu_emulated}"

# release, and the Pythons that it supports (0.12 needs 3.12)
releases=("0.10.2 3.11 3.12" "0.11.1 3.12 3.13" "0.11.2 3.13 3.12 3.14" "0.12.0.1 3.13 3.12 3.14")

ran=0
for row in "${releases[@]}"; do
  read -r release pythons <<<"$row"
  [[ " ${COMPAT_RELEASES:-$release} " == *" $release "* ]] || continue
  # shellcheck disable=SC2086  # a list of versions
  python=$(scripts/find_python.sh $pythons)
  if [ -z "$python" ]; then
    echo "test-compat: jax $release needs Python ${pythons// / or }, which is not here; left out"
    continue
  fi
  venv=.venv-jax-$release
  scripts/setup.sh "$python" "$venv" "jax==$release"
  "$venv/bin/python" -c "import jax; assert jax.__version__ == '$release', jax.__version__"
  [[ " ${tests[*]}" != *" tests/gpu_"@(aot|emulated)* ]] || scripts/setup_gpu_aot.sh "$venv/bin"
  "$venv/bin/python" -m pytest -q "${tests[@]}" -m "not slow and not form"
  ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || { echo "test-compat: no release was run: none of COMPAT_RELEASES, or no Python for it" >&2; exit 1; }
