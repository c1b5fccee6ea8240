#!/usr/bin/env bash
# Prints the path of the first of these Python versions that this machine has, on PATH or from pyenv; nothing if it has
# none. Usage: scripts/find_python.sh 3.12 3.13
set -euo pipefail
for version in "$@"; do
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
      echo "$candidate"
      exit
    fi
  done
done
