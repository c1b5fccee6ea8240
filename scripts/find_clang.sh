#!/usr/bin/env bash
# Prints a clang++ that builds and links with the given sanitizers, or nothing.
# Usage: scripts/find_clang.sh SANITIZERS
set -euo pipefail
clang=$(command -v clang++ || compgen -c clang++- | grep -E '^clang\+\+-[0-9]+$' | sort -V | tail -n 1 || true)
[ -n "$clang" ] || exit 0
main='int main() {}'
[[ $1 != *fuzzer* ]] || main='extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
echo "$main" | "$clang" "-fsanitize=$1" -x c++ - -o /dev/null 2>/dev/null || exit 0
command -v "$clang"
