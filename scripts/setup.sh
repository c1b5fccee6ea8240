#!/usr/bin/env bash
# Creates a virtual environment and installs both packages of this checkout into it, with what tests, lint and docs need.
# Does nothing if the sources have not changed since the last call. EXTRAS names other extras of pyproject.toml; if it is
# empty, long_context comes without what it depends on.
# Usage: scripts/setup.sh PYTHON VENV [JAX_REQUIREMENT [EXTRAS]]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 jax=${3:-} extras=${4-test,lint,docs}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: $python is $("$python" --version 2>&1), xla-shmem needs Python 3.11 or newer; try: make PYTHON=python3.12" >&2
  exit 1
}
command -v c++ >/dev/null || {
  echo "setup: no C++ compiler (c++) found; install one, for example: apt-get install g++" >&2
  exit 1
}

stamp=$venv/.xla-shmem-installed
sources() {
  find pyproject.toml CMakeLists.txt
  find xla_patch -type f \( -name '*.cc' -o -name '*.h' -o -name '*.cu*' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt \)
  find python -type f ! -path '*/__pycache__/*' ! -name '*.so'
}
current=$({ echo "$jax${4:-}"; sources | sort | tr '\n' '\0' | xargs -0 sha256sum; } | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$current" ]; then
  touch "$stamp"  # no source is newer (scripts/test_cpp.sh)
  exit 0
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
if [ -n "$jax" ]; then "$venv/bin/python" -m pip install --quiet "$jax"; fi
rm -f "$stamp"  # a build that fails leaves libraries of other sources
echo "setup: building and installing xla-shmem into $venv (a minute or two the first time)"
"$venv/bin/python" -m pip install --quiet ".${extras:+[$extras]}" --config-settings=build-dir="build/wheel-$(basename "$venv")" \
  --config-settings=cmake.define.XLA_SHMEM_COMPILE_TOGETHER=ON
if [ -n "$extras" ]; then
  "$venv/bin/python" -m pip install --quiet "./python/long_context[data,plot]"
else
  "$venv/bin/python" -m pip install --quiet --no-deps ./python/long_context
fi
echo "$current" >"$stamp"
