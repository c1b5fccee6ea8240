// How fast two processes read each other's memory with process_vm_readv, out of pages of 4 KiB.
//
// Usage: cross_memory_read_benchmark [-c BYTES] [BYTES...]; by default 4 and 16 MiB, each in one read; -c: BYTES at a
// time. Prints least and median of 300 rounds.
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

constexpr int kRounds = 300;

// Memory that both processes share.
struct Shared {
  std::atomic<int> waiting{0}, generation{0};
  pid_t pids[2];
  char* sources[2];

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

char* MapSmallPages(size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  madvise(mapped, bytes, MADV_NOHUGEPAGE);
  memset(mapped, 1, bytes);
  return static_cast<char*>(mapped);
}

void Read(pid_t pid, const char* from, char* to, size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<char*>(from), bytes};
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
    std::perror("process_vm_readv");
    std::abort();
  }
}

void Measure(size_t bytes, size_t chunk) {
  auto* shared = new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  sched_setaffinity(0, sizeof(processor), &processor);
  char* source = MapSmallPages(bytes);
  char* target = MapSmallPages(bytes);
  shared->pids[rank] = getpid();
  shared->sources[rank] = source;
  shared->Wait();
  std::vector<double> us;
  for (int round = 0; round < kRounds; ++round) {
    memcpy(source, target, bytes);  // like a program that has just computed the bytes that it sends
    shared->Wait();
    const auto start = std::chrono::steady_clock::now();
    for (size_t at = 0; at < bytes; at += chunk) {
      Read(shared->pids[1 - rank], shared->sources[1 - rank] + at, target + at, std::min(chunk, bytes - at));
    }
    shared->Wait();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  if (rank == 1) _exit(0);
  waitpid(child, nullptr, 0);
  std::sort(us.begin(), us.end());
  std::printf("%8zu KiB: %7.0f us at least, %7.0f in the median\n", bytes >> 10, us.front(), us[kRounds / 2]);
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
