// The parts that runtime_benchmark.cc and mpi_benchmark.cc share: settings, rounds, medians, the table.
#ifndef XLA_SHMEM_BENCHMARKS_SAMPLES_H_
#define XLA_SHMEM_BENCHMARKS_SAMPLES_H_

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

enum class Op { kMemcpy, kPermute, kAllReduce, kAllGather, kReduceScatter, kAllToAll };
inline constexpr std::pair<Op, const char*> kOps[] = {
    {Op::kMemcpy, "memcpy"},
    {Op::kPermute, "permute"},
    {Op::kAllReduce, "all-reduce"},
    {Op::kAllGather, "all-gather"},
    {Op::kReduceScatter, "reduce-scatter"},
    {Op::kAllToAll, "all-to-all"},
};

struct Settings {
  int processes = 2;
  size_t first = 4 << 10, last = 64 << 20, factor = 4;
  int rounds = 11;
  std::string single_copy = "auto";
  std::vector<Op> ops;
};

inline size_t ReadBytes(const char* text) {
  char* end;
  size_t bytes = strtoull(text, &end, 10);
  if (*end == 'K') bytes <<= 10;
  if (*end == 'M') bytes <<= 20;
  return bytes;
}

inline Settings Read(int argc, char** argv) {
  Settings settings;
  std::string names;
  for (int option; (option = getopt(argc, argv, "n:b:e:f:r:s:o:")) != -1;) {
    if (option == 'n') settings.processes = atoi(optarg);
    if (option == 'b') settings.first = ReadBytes(optarg);
    if (option == 'e') settings.last = ReadBytes(optarg);
    if (option == 'f') settings.factor = std::max<size_t>(ReadBytes(optarg), 2);
    if (option == 'r') settings.rounds = atoi(optarg);
    if (option == 's') settings.single_copy = optarg;
    if (option == 'o') names = std::string(",") + optarg + ",";
    if (option == '?') exit(2);
  }
  for (const auto& [op, name] : kOps) {
    const bool wanted = names.empty() || names.find("," + std::string(name) + ",") != std::string::npos;
    if (wanted || op == Op::kMemcpy) settings.ops.push_back(op);
  }
  return settings;
}

// A barrier of forked processes.
class Barrier {
 public:
  static Barrier* Create(int processes) {
    void* memory = mmap(nullptr, sizeof(Barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    auto* barrier = static_cast<Barrier*>(memory);
    barrier->processes_ = static_cast<uint32_t>(processes);
    return barrier;
  }
  void Wait() {
    const uint32_t goal = arrived_.fetch_add(1) / processes_ * processes_ + processes_;
    while (static_cast<int32_t>(arrived_.load() - goal) < 0) sched_yield();
  }

 private:
  uint32_t processes_;
  std::atomic<uint32_t> arrived_;
};

// Calls `run(op, operand, result, bytes)` for all operations and sizes; rank 0 prints the table. `wait` is a barrier of
// all ranks.
template <typename Wait, typename Run>
void Measure(const Settings& settings, int rank, Wait wait, Run run) {
  using Clock = std::chrono::steady_clock;
  auto buffer = [&] {
    auto* memory = static_cast<char*>(aligned_alloc(4096, settings.last + 4096));
    memset(memory, 1, settings.last);
    return memory;
  };
  char *operand = buffer(), *result = buffer();
  std::map<std::pair<size_t, Op>, std::vector<double>> samples;
  for (int round = 0; round <= settings.rounds; ++round) {
    for (size_t bytes = settings.first; bytes <= settings.last; bytes *= settings.factor) {
      // Some milliseconds at 4 GB/s and 2 us a call. The first round is half as long and is not counted.
      const size_t repeats = std::clamp<size_t>((8 << 20) / (bytes + 8192), 2, 1000) / (round == 0 ? 2 : 1);
      for (Op op : settings.ops) {
        wait();
        const Clock::time_point start = Clock::now();
        for (size_t repeat = 0; repeat < repeats; ++repeat) {
          if (op == Op::kMemcpy) {
            memcpy(result, operand, bytes);
            asm volatile("" ::: "memory");
          } else {
            run(op, operand, result, bytes);
          }
        }
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        wait();
        if (round > 0) samples[{bytes, op}].push_back(seconds * 1e6 / static_cast<double>(repeats));
      }
    }
  }
  free(operand);
  free(result);
  if (rank != 0) return;
  printf("%-15s %10s %10s  %-21s\n", "op", "bytes", "median us", "quartiles");
  for (auto& [key, samples_of] : samples) {
    std::vector<double>& values = samples_of;  // C++17 captures no structured binding
    std::sort(values.begin(), values.end());
    auto at = [&values](double part) {
      return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
    };
    const char* name = std::find_if(std::begin(kOps), std::end(kOps), [op = key.second](const auto& entry) {
                         return entry.first == op;
                       })->second;
    printf("%-15s %10zu %10.2f  %.2f-%.2f\n", name, key.first, at(0.5), at(0.25), at(0.75));
  }
}

}  // namespace bench

#endif  // XLA_SHMEM_BENCHMARKS_SAMPLES_H_
