// The time of a copy by the relative alignment of source and destination, with memcpy, shm::Copy and
// shm::CopyStreaming.
//
// Usage: copy_benchmark [BYTES...]; by default 4 KiB, 128 KiB and 1 MiB. Prints the least of 300 rounds in us.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "xla_patch/shm/copy.h"

namespace {

constexpr int kRounds = 300;

template <typename CopyBytes>
double Least(CopyBytes copy) {
  double least = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    asm volatile("" ::: "memory");
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {size_t{4} << 10, size_t{128} << 10, size_t{1} << 20};
  printf("%10s %22s %10s %10s %15s\n", "bytes", "destination - source", "memcpy", "Copy", "streaming");
  for (const size_t bytes : sizes) {
    const size_t capacity = (bytes + 8192) / 4096 * 4096;
    char* const from = static_cast<char*>(std::aligned_alloc(4096, capacity));
    char* const to = static_cast<char*>(std::aligned_alloc(4096, capacity));
    if (from == nullptr || to == nullptr) std::abort();
    memset(from, 1, capacity);
    memset(to, 1, capacity);
    for (const size_t ahead : {0, 1, 16, 31, 32, 64, 2048, 4080}) {
      printf("%10zu %22zu %10.2f %10.2f %15.2f\n", bytes, ahead, Least([&] { memcpy(to + ahead, from, bytes); }),
             Least([&] { xla_shmem::shm::Copy(to + ahead, from, bytes); }),
             Least([&] { xla_shmem::shm::CopyStreaming(to + ahead, from, bytes); }));
    }
    std::free(from);
    std::free(to);
  }
}
