#!/usr/bin/env bash
# Checks format, lint and types. Usage: scripts/lint.sh VENV_BIN [--fix | --fast]. With --fix the tools first rewrite what
# they can. --fast leaves out what takes minutes, mypy and clang-tidy; .pre-commit-config.yaml calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 mode=${2:-}
mapfile -t sources < <(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
if [ "$mode" = --fix ]; then
  "$bin/ruff" check --fix python tests tools examples benchmarks
  "$bin/ruff" format python tests tools examples benchmarks
  "$bin/clang-format" -i "${sources[@]}"
fi
"$bin/ruff" check python tests tools examples benchmarks
"$bin/ruff" format --check python tests tools examples benchmarks
PYTHONPATH=python "$bin/lint-imports" --no-cache
"$bin/clang-format" --dry-run --Werror "${sources[@]}"
if [ "$mode" = --fast ]; then exit; fi
"$bin/mypy"
PATH=$(realpath "$bin"):$PATH
cmake -S . -B build/tidy -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DPython_EXECUTABLE="$(realpath -s "$bin/python")" >/dev/null
# The overlay needs XLA's headers: Bazel compiles it, with warnings as errors.
mapfile -t units < <(git ls-files 'xla_patch/*.cc' ':!xla_patch/overlay')
printf '%s\n' "${units[@]}" | xargs -P 2 -n 8 "$bin/clang-tidy" -p build/tidy --quiet
