#!/usr/bin/env bash
# Fetches the packages for compiling for a GPU that the jax in VENV_BIN lacks: the stock CUDA plugin of the same
# release, ptxas and libdevice; NVSHMEM; and CUDA's headers, which tests/gpu_emulator is built with. The wheels go to a
# folder of their own (.venv-gpu-<release>), the oldest NVRTC of each CUDA and NVSHMEM that we support to its folder
# oldest; VENV_BIN does not change. Needs no GPU, driver or CUDA toolkit.
# Usage: scripts/setup_gpu_aot.sh VENV_BIN
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1/python
release=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("jax"))')
folder=.venv-gpu-$release
stamp=$folder/.complete
packages=("jax-cuda13-plugin==$release" "jax-cuda13-pjrt==$release" "nvidia-cuda-nvcc>=13,<14" "nvidia-nvvm>=13,<14"
  "nvidia-nvshmem-cu13")
# AArch64 has no NVRTC 12.1.
oldest=("nvidia-cuda-nvrtc==13.0.*" "nvidia-cuda-nvrtc-cu12==12.1.*; platform_machine == 'x86_64'"
  "nvidia-nvshmem-cu13==3.3.20")
wanted="${packages[*]} ${oldest[*]} $("$python" -c 'import sys; print(sys.version_info[:2])')"
export PIP_DISABLE_PIP_VERSION_CHECK=1

if ! [ -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "setup_gpu_aot: fetching the CUDA plugin of jax $release (about 1.7 GB on disk, once)"
  rm -rf "$folder"
  "$python" -m pip install --quiet --no-deps --target "$folder" "${packages[@]}"
  "$python" -m pip install --quiet --no-deps --target "$folder/oldest" "${oldest[@]}"
  echo "$wanted" >"$stamp"
fi

# Only the headers: XLA would open the CUDA runtime that lies beside them in their wheel.
include=$folder/nvidia/cu13/include
if ! [ -f "$include/cuda.h" ]; then
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  "$python" -m pip download --quiet --no-deps --dest "$fetched" "nvidia-cuda-runtime>=13,<14" "nvidia-cuda-crt>=13,<14"
  for wheel in "$fetched"/*.whl; do "$python" -m zipfile -e "$wheel" "$fetched/unpacked"; done
  cp -r "$fetched/unpacked/nvidia/cu13/include/." "$include/"
fi
