#!/usr/bin/env bash
# Checks xla-shmem on a machine with NVIDIA GPUs: builds it, checks correctness, measures speed, and writes
# OUT_DIR/report.json, report.md and output.log. One call, no network, under nine minutes, with the machine's JAX
# (docs/gpu.md).
# Usage: scripts/gpu_check.sh OUT_DIR [SECTION ...]
#
# GPU_CHECK_BASE_PYTHON  Python to build with, which can import jax[cuda*] (default: python3)
# GPU_CHECK_PYTHON       Python of an environment that has xla-shmem already: nothing is built
# GPU_CHECK_SECONDS      seconds for all sections (default: 525); more lengthens the limit of each
# GPU_CHECK_WORK         folder for build and environment (default: build/gpu-check)
# WHEELS                 folder of wheels for packages that the machine lacks; the report names them
set -euo pipefail
[ $# -ge 1 ] || {
  echo "usage: scripts/gpu_check.sh OUT_DIR [SECTION ...]" >&2
  exit 2
}
root=$(cd "$(dirname "$0")/.." && pwd)
python=${GPU_CHECK_BASE_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "gpu_check: $python is not Python 3.11 or newer; set GPU_CHECK_BASE_PYTHON" >&2
  exit 2
}
PYTHONPATH=$root/benchmarks/gpu${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m gpu_check "$@"
