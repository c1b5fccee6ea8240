#include "xla_patch/shm/late_processes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "xla_patch/shm/steady_clock.h"

namespace xla_shmem::shm {
namespace {

constexpr int kWordBits = 64;

// Null if the process of `pe` waits and still looks.
const char* WhyLate(const Heap& heap, int pe, std::chrono::nanoseconds patience) {
  const SegmentHeader& header = heap.HeaderOf(pe);
  // It has given up because of another process, and no longer looks.
  if (header.failed.load(std::memory_order_acquire) != kNotFailed) return nullptr;
  if (!heap.Alive(pe)) return "has exited";
  if (heap.IsStopped(pe)) return "is stopped";
  const int64_t looked = header.waits.looked_ns.load(std::memory_order_acquire);
  if (looked == 0) return "is running, but in no collective";
  if (SteadyNanoseconds() - looked > patience.count()) return "waits in a collective, but its threads do not run";
  return nullptr;
}

}  // namespace

void PublishWaits(const Heap& heap, const std::set<int>& pes) {
  WaitRecord& record = heap.OwnHeader().waits;
  uint64_t words[WaitRecord::kPes / kWordBits] = {};
  for (const int pe : pes) {
    if (pe < WaitRecord::kPes) words[pe / kWordBits] |= uint64_t{1} << pe % kWordBits;
  }
  for (int i = 0; i < WaitRecord::kPes / kWordBits; ++i) record.pes[i].store(words[i], std::memory_order_relaxed);
  record.looked_ns.store(SteadyNanoseconds(), std::memory_order_release);
}

void PublishNoWaits(const Heap& heap) { heap.OwnHeader().waits.looked_ns.store(0, std::memory_order_release); }

std::vector<LateProcess> FindLateProcesses(const Heap& heap, const std::set<int>& pes,
                                           std::chrono::nanoseconds patience) {
  std::vector<LateProcess> late;
  std::set<int> seen;  // processes
  std::set<int> next = pes;
  while (!next.empty()) {
    const int pe = *next.begin();
    next.erase(next.begin());
    if (!heap.Reaches(pe) || !seen.insert(heap.ProcessOf(pe)).second) continue;
    if (const char* why = WhyLate(heap, pe, patience); why != nullptr) {
      late.push_back({heap.ProcessOf(pe), pe, why});
      continue;
    }
    const WaitRecord& record = heap.HeaderOf(pe).waits;
    for (int i = 0; i < std::min(heap.n_pes(), WaitRecord::kPes); ++i) {
      if (record.pes[i / kWordBits].load(std::memory_order_relaxed) >> i % kWordBits & 1) next.insert(i);
    }
  }
  std::sort(late.begin(), late.end(), [](const LateProcess& a, const LateProcess& b) { return a.pe < b.pe; });
  return late;
}

std::string Describe(const std::vector<LateProcess>& late) {
  std::string text;
  for (const auto& [process, pe, state] : late) {
    text += "; process " + std::to_string(process) + " (PE " + std::to_string(pe) + ") " + state;
  }
  return text;
}

}  // namespace xla_shmem::shm
