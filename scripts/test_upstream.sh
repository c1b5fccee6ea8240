#!/usr/bin/env bash
# Compares our assigner with upstream's, in old JAX releases, on a family of programs.
# Needs no GPU and no driver: it builds a double of the CUDA libraries. Usage: scripts/test_upstream.sh VENV_BIN PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 python=$2
answers=build/upstream/answers driver=$PWD/build/upstream/fake_driver
export PIP_DISABLE_PIP_VERSION_CHECK=1

# Installs the wheels without their dependencies: of NVIDIA's libraries the compiler only needs ptxas and libdevice.
install_release() {
  local release=$1 venv=$2
  [ -f "$venv/.installed" ] && return
  echo "test-upstream: installing jax $release into $venv"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-deps "jax==$release" "jaxlib==$release" "jax-cuda12-plugin==$release" \
    "jax-cuda12-pjrt==$release" "nvidia-cuda-nvcc-cu12==12.9.86"
  "$venv/bin/pip" install --quiet "numpy<3" scipy ml_dtypes opt_einsum protobuf
  touch "$venv/.installed"
}

rm -rf build/upstream
mkdir -p "$driver"
cc -shared -fPIC -Wall -Werror -o "$driver/libcuda.so.1" tests/upstream/fake_driver.c
for library in libcudart.so.12 libnvidia-ml.so.1 libcudnn.so.9; do ln -s libcuda.so.1 "$driver/$library"; done

"$bin/python" tests/upstream/placements.py | while read -r release placement devices; do
  venv=.venv-upstream-$release out=$answers/$release/$placement
  install_release "$release" "$venv" </dev/null
  mkdir -p "$out"
  library_path=$driver
  case $placement in *-deviceless) library_path= ;; esac
  FAKE_DRIVER_DEVICES=$devices LD_LIBRARY_PATH=$library_path "$venv/bin/python" tests/upstream/compile_family.py \
    "$placement" "$out" tests/upstream/target_config.txtpb >"$out/log" 2>&1 </dev/null || {
    echo "test-upstream: jax $release, $placement: compile_family.py failed, the end of $out/log:" >&2
    tail -n 15 "$out/log" >&2
    exit 1
  }
done
"$bin/python" -m pytest -q tests/upstream --answers "$answers"
