#!/usr/bin/env bash
# Fuzzes the pass under ASan and UBSan: for SECONDS with libFuzzer if clang has it, which draws new mutations each time;
# or, without it or with runs=NUMBER, the mutation loop, whose mutations are the same each time.
# Usage: scripts/fuzz.sh VENV_BIN SECONDS|runs=NUMBER
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 limit=$2
clang=
case $limit in
  runs=*) runs=${limit#runs=} ;;
  *)
    runs=$((limit * 5000))  # about 5000 a second
    clang=$(scripts/find_clang.sh fuzzer,address,undefined)
    [ -n "$clang" ] || echo "fuzz: no clang with libFuzzer here; running the mutation loop instead"
    ;;
esac
if [ -n "$clang" ]; then
  PATH=$(realpath "$bin"):$PATH
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DXLA_SHMEM_BUILD_MODULE=OFF \
    -DXLA_SHMEM_COMPILE_TOGETHER=ON -DXLA_SHMEM_BUILD_TESTS=ON -DXLA_SHMEM_BUILD_FUZZERS=ON -DDOCTEST_INCLUDE_DIR="$(scripts/find_doctest.sh)" >/dev/null
  cmake --build build/fuzz --target fuzz_pass fuzz_pass_standalone
  mkdir -p build/fuzz/corpus
  [ -n "$(ls -A build/fuzz/corpus)" ] || build/fuzz/tests/fuzz_pass_standalone --write-corpus build/fuzz/corpus
  build/fuzz/tests/fuzz_pass -max_total_time="$limit" -timeout=10 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/ build/fuzz/corpus
else
  scripts/test_cpp.sh "$bin" address,undefined fuzz_pass_standalone
  build/cpp-address-undefined/tests/fuzz_pass_standalone "$runs"
fi
