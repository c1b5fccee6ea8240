// How fast two processes copy from each other: by process_vm_readv out of pages of 4 KiB and out of huge pages, and by
// loads out of memory that both map (a memfd, whose pages have 4 KiB unless shmem_enabled gives larger ones).
//
// Usage: cross_memory_read_benchmark [-c BYTES] [BYTES...]; by default 4 and 16 MiB; -c: BYTES at a time. Each process
// computes its operand from its last result, then both copy the other's operand at once. Prints medians of 100 rounds,
// in which the three ways take turns: of the copy, and of the computation before it.
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 100;
constexpr size_t kHugePage = size_t{2} << 20;

enum Way { kSmallPages, kHugePages, kMapped, kWays };
constexpr std::array<const char*, kWays> kNames = {"read, small pages", "read, huge pages", "mapped memory"};

// Memory that both processes share.
struct Shared {
  std::atomic<int> waiting{0}, generation{0};
  pid_t pids[2];
  char* operands[2][kWays];

  void Wait() {
    const int now = generation.load();
    if (waiting.fetch_add(1) == 1) {
      waiting = 0;
      generation = now + 1;
    } else {
      while (generation.load() == now) {
      }
    }
  }
};

void* Map(size_t bytes, int flags, int file) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (mapped == MAP_FAILED) std::abort();
  return mapped;
}

// Returns private memory whose pages are in place.
char* Private(size_t bytes, int advice) {
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const auto mapped = reinterpret_cast<uintptr_t>(Map(whole + kHugePage, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  auto* memory = reinterpret_cast<char*>((mapped + kHugePage - 1) / kHugePage * kHugePage);
  madvise(memory, whole, advice);
  memset(memory, 1, whole);
  return memory;
}

// Returns memory that a child of fork() shares.
char* MapFile(size_t bytes) {
  const int file = memfd_create("operand", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
  return static_cast<char*>(memset(Map(bytes, MAP_SHARED, file), 1, bytes));
}

void Read(pid_t pid, const char* from, char* to, size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<char*>(from), bytes};
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
    std::perror("process_vm_readv");
    std::abort();
  }
}

// Computes an operand out of the last result.
[[gnu::noinline]] void Compute(float* __restrict operand, const float* __restrict result, size_t elements) {
  for (size_t i = 0; i < elements; ++i) operand[i] = result[i] * 1.5f + 1.0f;
}

double Us(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double Median(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

void Measure(size_t bytes, size_t chunk) {
  auto* shared = new (Map(4096, MAP_SHARED | MAP_ANONYMOUS, -1)) Shared;
  std::array<char*, 2> mapped_operands{MapFile(bytes), MapFile(bytes)}, mapped_results{MapFile(bytes), MapFile(bytes)};
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0, peer = 1 - rank;
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  sched_setaffinity(0, sizeof(processor), &processor);
  const std::array<char*, kWays> operands{Private(bytes, MADV_NOHUGEPAGE), Private(bytes, MADV_HUGEPAGE),
                                          mapped_operands[rank]};
  const std::array<char*, kWays> results{Private(bytes, MADV_NOHUGEPAGE), Private(bytes, MADV_HUGEPAGE),
                                         mapped_results[rank]};
  shared->pids[rank] = getpid();
  std::copy(operands.begin(), operands.end(), shared->operands[rank]);
  std::array<std::vector<double>, kWays> copies, computations;
  for (int round = 0; round < kRounds; ++round) {
    for (int way = 0; way < kWays; ++way) {
      shared->Wait();
      const Clock::time_point begin = Clock::now();
      Compute(reinterpret_cast<float*>(operands[way]), reinterpret_cast<float*>(results[way]), bytes / sizeof(float));
      computations[way].push_back(Us(Clock::now() - begin));
      shared->Wait();
      const Clock::time_point start = Clock::now();
      for (size_t at = 0; at < bytes; at += chunk) {
        const size_t part = std::min(chunk, bytes - at);
        if (way == kMapped) {
          memcpy(results[way] + at, mapped_operands[peer] + at, part);
        } else {
          Read(shared->pids[peer], shared->operands[peer][way] + at, results[way] + at, part);
        }
      }
      copies[way].push_back(Us(Clock::now() - start));
    }
  }
  if (rank == 1) _exit(0);
  waitpid(child, nullptr, 0);
  for (int way = 0; way < kWays; ++way) {
    std::printf("%8zu KiB, %-18s %9.1f us, computing %9.1f\n", bytes >> 10, kNames[way], Median(copies[way]),
                Median(computations[way]));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  size_t chunk = SIZE_MAX;
  for (int option; (option = getopt(argc, argv, "c:")) != -1;) {
    if (option != 'c' || (chunk = std::strtoull(optarg, nullptr, 10)) == 0) return 2;
  }
  std::vector<size_t> sizes;
  for (int i = optind; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {4 << 20, 16 << 20};
  for (const size_t bytes : sizes) Measure(bytes, chunk);
}
