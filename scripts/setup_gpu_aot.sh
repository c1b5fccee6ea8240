#!/usr/bin/env bash
# Fetches the packages for compiling for a GPU that the jax in VENV_BIN lacks: the stock CUDA plugin of the same
# release, ptxas and libdevice; and NVSHMEM. The wheels go to a folder of their own (.venv-gpu-<release>); VENV_BIN
# does not change. Needs no GPU, driver or CUDA toolkit. Usage: scripts/setup_gpu_aot.sh VENV_BIN
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1/python
release=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("jax"))')
folder=.venv-gpu-$release
stamp=$folder/.complete
packages=("jax-cuda13-plugin==$release" "jax-cuda13-pjrt==$release" "nvidia-cuda-nvcc>=13,<14" "nvidia-nvvm>=13,<14"
  "nvidia-nvshmem-cu13")
wanted="${packages[*]} $("$python" -c 'import sys; print(sys.version_info[:2])')"
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0

echo "setup_gpu_aot: fetching the CUDA plugin of jax $release (about 1.3 GB on disk, once)"
rm -rf "$folder"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip install --quiet --no-deps --target "$folder" "${packages[@]}"
echo "$wanted" >"$stamp"
