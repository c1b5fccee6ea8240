// The time to write memory that another core has read: cache lines that both cores hold (docs/performance.md, "Distant
// cores"). It tells how far apart the system has two processors; a virtual machine may change that from one second to
// the next.
//
// Usage: [taskset -c FIRST,SECOND] shared_lines_benchmark [ROUNDS]; by default 10. Prints the mean of 60 writes and
// reads of 1 MiB in us for each round, of which there is one a second.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "xla_patch/shm/copy.h"

namespace {

constexpr size_t kBytes = 1 << 20;
constexpr int kTimes = 60;

struct Shared {
  alignas(64) std::atomic<int> steps[2];
  alignas(4096) char memory[kBytes];
};

double Now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

// Process 0 to the first, process 1 to the last of this process's processors.
void Bind(int me) {
  cpu_set_t allowed, one;
  Require(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    const int processor = me == 0 ? CPU_SETSIZE - 1 - i : i;
    if (!CPU_ISSET(processor, &allowed)) continue;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
  }
  Require(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
}

// Both processes have come so far.
void Meet(Shared* shared, int me) {
  const int step = shared->steps[me].fetch_add(1) + 1;
  while (shared->steps[1 - me].load() < step) sched_yield();
}

// Process 0 writes, process 1 reads. Returns the mean time of this process's part.
double Exchange(Shared* shared, int me, decltype(&xla_shmem::shm::Copy) write, char* own) {
  double took = 0;
  for (int i = 0; i < kTimes; ++i) {
    for (const int turn : {0, 1}) {
      Meet(shared, me);
      const double begin = Now();
      if (turn == me && me == 0) write(shared->memory, own, kBytes);
      if (turn == me && me == 1) xla_shmem::shm::Copy(own, shared->memory, kBytes);
      if (turn == me) took += Now() - begin;
    }
  }
  return took / kTimes;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Require(memory != MAP_FAILED, "mmap");
  auto* const shared = static_cast<Shared*>(memory);
  int reads[2];
  Require(pipe(reads) == 0, "pipe");
  const pid_t child = fork();
  const int me = child == 0 ? 1 : 0;
  Bind(me);
  std::vector<char> own(kBytes, 1);
  if (me == 0) printf("%12s %12s %16s %16s\n", "plain store", "read", "streaming store", "read");
  for (size_t round = 0; round < rounds; ++round) {
    double mine[2], theirs[2];
    mine[0] = Exchange(shared, me, xla_shmem::shm::Copy, own.data());
    mine[1] = Exchange(shared, me, xla_shmem::shm::CopyStreaming, own.data());
    if (me == 1 && write(reads[1], mine, sizeof(mine)) != sizeof(mine)) return 1;
    if (me == 0 && read(reads[0], theirs, sizeof(theirs)) == sizeof(theirs)) {
      printf("%12.1f %12.1f %16.1f %16.1f\n", mine[0], theirs[0], mine[1], theirs[1]);
      fflush(stdout);
    }
    if (round + 1 < rounds) sleep(1);
  }
  if (me == 0) waitpid(child, nullptr, 0);
}
