#!/usr/bin/env bash
# Fuzzes the pass with libFuzzer if clang has it, otherwise with the deterministic mutation loop; both under ASan and UBSan.
# Usage: scripts/fuzz.sh VENV_BIN SECONDS, or, with a fixed seed: scripts/fuzz.sh VENV_BIN runs=NUMBER
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 limit=$2
case $limit in
  runs=*) runs=${limit#runs=} limits=(-seed=1 "-runs=$runs") corpus=build/fuzz/corpus-of-one-run ;;
  *) runs=$((limit * 5000)) limits=("-max_total_time=$limit") corpus=build/fuzz/corpus ;;  # the loop does 5000 a second
esac
clang=$(scripts/find_clang.sh fuzzer,address,undefined)
if [ -n "$clang" ]; then
  PATH=$(realpath "$bin"):$PATH
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DXLA_SHMEM_BUILD_MODULE=OFF \
    -DXLA_SHMEM_COMPILE_TOGETHER=ON -DXLA_SHMEM_BUILD_TESTS=ON -DXLA_SHMEM_BUILD_FUZZERS=ON -DDOCTEST_INCLUDE_DIR="$(scripts/find_doctest.sh)" >/dev/null
  cmake --build build/fuzz --target fuzz_pass fuzz_pass_standalone
  # A fixed seed begins with the same corpus each time.
  [ "$corpus" = build/fuzz/corpus ] || rm -rf "$corpus"
  mkdir -p "$corpus"
  [ -n "$(ls -A "$corpus")" ] || build/fuzz/tests/fuzz_pass_standalone --write-corpus "$corpus"
  build/fuzz/tests/fuzz_pass "${limits[@]}" -timeout=10 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/ "$corpus"
else
  echo "fuzz: no clang with libFuzzer here; running the mutation loop instead"
  scripts/test_cpp.sh "$bin" address,undefined fuzz_pass_standalone
  build/cpp-address-undefined/tests/fuzz_pass_standalone "$runs"
fi
