#!/usr/bin/env bash
# Fuzzes the pass with libFuzzer if clang has it, otherwise with the deterministic mutation loop; both under ASan and UBSan.
# Usage: scripts/fuzz.sh VENV_BIN SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 seconds=$2
clang=$(scripts/find_clang.sh fuzzer,address,undefined)
if [ -n "$clang" ]; then
  PATH=$(realpath "$bin"):$PATH
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DXLA_SHMEM_BUILD_MODULE=OFF \
    -DXLA_SHMEM_COMPILE_TOGETHER=ON -DXLA_SHMEM_BUILD_TESTS=ON -DXLA_SHMEM_BUILD_FUZZERS=ON -DDOCTEST_INCLUDE_DIR="$(scripts/find_doctest.sh)" >/dev/null
  cmake --build build/fuzz --target fuzz_pass fuzz_pass_standalone
  mkdir -p build/fuzz/corpus
  [ -n "$(ls -A build/fuzz/corpus)" ] || build/fuzz/tests/fuzz_pass_standalone --write-corpus build/fuzz/corpus
  build/fuzz/tests/fuzz_pass -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 build/fuzz/corpus
else
  echo "fuzz: no clang with libFuzzer here; running the mutation loop instead"
  scripts/test_cpp.sh "$bin" address,undefined fuzz_pass_standalone
  build/cpp-address-undefined/tests/fuzz_pass_standalone $((seconds * 5000))  # about 5000 a second
fi
