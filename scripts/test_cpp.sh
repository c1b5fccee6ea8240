#!/usr/bin/env bash
# Builds the C++ unit tests and benchmarks, and runs the tests; with CTEST_REGEX only the tests that match it.
# WARNINGS_AS_ERRORS=ON stops at a warning, as CI does.
# Usage: scripts/test_cpp.sh VENV_BIN SANITIZERS [CTEST_REGEX]
# SANITIZERS: "address,undefined", "thread", "" for an optimised build, or "assertions" for one that is quickest to build:
# without benchmarks and mutated modules. Its tests are not optimised and have the assertions of the standard library.
# They test the libraries that `make install` has built, as they ship; if a source has changed since, they compile it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 sanitizers=$2 regex=${3:-}
build=build/cpp-${sanitizers:-release}
build=${build//,/-}
doctest=$(scripts/find_doctest.sh)
PATH=$(realpath "$bin"):$PATH
compiler=
flags=(-DXLA_SHMEM_SANITIZE="${sanitizers//,/;}" -DXLA_SHMEM_BUILD_BENCHMARKS=ON)
if [ "$sanitizers" = assertions ]; then
  regex=${regex:-_test$}
  venv=$(dirname "$(realpath "$bin")")
  core=$PWD/build/wheel-$(basename "$venv")
  if [ ! -e "$core/xla_patch/libxla_shmem_pjrt.a" ] || [ ! -e "$venv/.xla-shmem-installed" ] ||
    [ -n "$(find CMakeLists.txt xla_patch -type f -newer "$venv/.xla-shmem-installed")" ]; then
    core=
  fi
  flags=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="-O0 -g0 -D_GLIBCXX_ASSERTIONS" -DXLA_SHMEM_BUILD_BENCHMARKS=OFF
    -DXLA_SHMEM_CORE_FROM="$core")
fi
# clang compiles these two in half the time of g++.
[ "$sanitizers" != address,undefined ] || compiler=$(scripts/find_clang.sh "$sanitizers")
# For another compiler CMake begins anew and forgets all other settings, so that no test is built and old ones run.
cached=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
[ "$cached" = "${compiler:-$cached}" ] || rm -rf "$build"
cmake -S . -B "$build" -G Ninja -DXLA_SHMEM_BUILD_MODULE=OFF -DXLA_SHMEM_BUILD_TESTS=ON \
  -DXLA_SHMEM_COMPILE_TOGETHER=ON ${compiler:+-DCMAKE_CXX_COMPILER="$compiler"} "${flags[@]}" \
  -DXLA_SHMEM_WARNINGS_AS_ERRORS="${WARNINGS_AS_ERRORS:-OFF}" -DDOCTEST_INCLUDE_DIR="$doctest" >/dev/null
targets=(all)
if [ -n "$regex" ]; then
  # A test has the name of the program that it runs.
  mapfile -t targets < <(ctest --test-dir "$build" -N -R "$regex" | sed -n 's/.*Test *#[0-9]*: //p')
  [ ${#targets[@]} -gt 0 ] || { echo "no C++ test matches '$regex'" >&2; exit 2; }
fi
cmake --build "$build" --target "${targets[@]}"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
ctest --test-dir "$build" --output-on-failure --parallel 2 --timeout 600 -R "${regex:-.}"
