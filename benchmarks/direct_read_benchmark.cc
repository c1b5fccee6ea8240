// How fast two processes read each other's memory with process_vm_readv, out of small pages and out of huge ones.
// Usage: direct_read_benchmark [-c BYTES] [BYTES...]; by default 4 and 16 MiB, each in one read. Prints the least and
// the median of 300 turns; -c: read so many bytes at a time. Then what a message of 512 KiB costs both ways, as a job
// finds out when it connects.
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "xla_patch/shm/copy_costs.h"
#include "xla_patch/shm/huge_pages.h"

namespace {

constexpr int kTurns = 300;
constexpr size_t kHuge = xla_shmem::shm::kHugePageBytes;

// What both processes see.
struct Shared {
  std::atomic<int> waiting{0}, generation{0};
  pid_t pids[2];
  char* sources[2];

  void Meet() {
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

char* Map(size_t bytes, int advice) {
  void* mapped = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  madvise(mapped, bytes + kHuge, advice);
  auto* memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mapped) + kHuge - 1) / kHuge * kHuge);
  memset(memory, 1, bytes);
  return memory;
}

void Read(pid_t pid, const char* from, char* to, size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<char*>(from), bytes};
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
    std::perror("process_vm_readv");
    std::abort();
  }
}

void Measure(size_t bytes, size_t chunk, int advice) {
  auto* shared = new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  sched_setaffinity(0, sizeof(processor), &processor);
  char* source = Map(bytes, advice);
  char* target = Map(bytes, MADV_NOHUGEPAGE);
  shared->pids[rank] = getpid();
  shared->sources[rank] = source;
  shared->Meet();
  std::vector<double> us;
  for (int turn = 0; turn < kTurns; ++turn) {
    memcpy(source, target, bytes);  // as a program does that has just calculated what it sends
    shared->Meet();
    const auto start = std::chrono::steady_clock::now();
    for (size_t at = 0; at < bytes; at += chunk) {
      Read(shared->pids[1 - rank], shared->sources[1 - rank] + at, target + at, std::min(chunk, bytes - at));
    }
    shared->Meet();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  if (rank == 1) _exit(0);
  waitpid(child, nullptr, 0);
  std::sort(us.begin(), us.end());
  std::printf("%8zu KiB, %3zu %% on huge pages: %7.0f us at least, %7.0f in the median\n", bytes >> 10,
              xla_shmem::shm::BytesOnHugePages(source, bytes) * 100 / bytes, us.front(), us[kTurns / 2]);
  std::fflush(stdout);
}

void PrintCosts() {
  using std::chrono::duration;
  xla_shmem::shm::CopyCosts costs{};
  if (!MeasureCopies(512 << 10, xla_shmem::shm::Pages::kSmall, &costs)) {
    std::puts("the two ways cannot be compared here");
    return;
  }
  const duration<double, std::micro> direct = costs.direct, staged = costs.staged;
  std::printf("512 KiB on small pages, processor time: single copy %.0f us, through slots %.0f us, %.2f\n",
              direct.count(), staged.count(), direct / staged);
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
  for (const size_t bytes : sizes) {
    for (const int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) Measure(bytes, chunk, advice);
  }
  PrintCosts();
}
