#!/usr/bin/env bash
# Other projects' programs under the flag: MaxText trains, and the tests of JAX, NetKet and jaxDecomp run, as on stock
# JAX. JAX_SOURCE, NETKET_SOURCE and XLA_SOURCE name checkouts whose tests are in no package (docs/contributing.md).
# CLIENTS=quick runs a part that fits into CI; CLIENTS="suites maxtext-lowest" runs these sets (default: all).
# Usage: scripts/test_clients.sh VENV_BIN [PYTEST_ARGUMENTS...]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
shift
sets=${CLIENTS:-suites maxtext-highest maxtext-lowest}
[ "$sets" != quick ] || sets="suites maxtext-highest"
for set in $sets; do
  venv=$(scripts/setup_clients.sh "$bin" "$set")
  if [ "$set" = suites ]; then
    tests=(tests/clients/test_{suite_outcomes,xla_module,suites}.py)
  else
    tests=(tests/clients/test_maxtext.py)
    if [ "${CLIENTS:-}" != quick ]; then
      tests+=(tests/clients/test_maxtext_compiled.py)
      scripts/setup_gpu_aot.sh "$venv/bin"
    fi
  fi
  echo "test-clients: $set in $venv"
  "$venv/bin/python" -m pytest -q -rs -s "${tests[@]}" "$@"
done
