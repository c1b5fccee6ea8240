#include "xla_patch/shm/late_processes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "xla_patch/shm/steady_clock.h"

namespace xla_shmem::shm {
namespace {

constexpr int kWordBits = 64;

Lateness LatenessOf(const Heap& heap, int pe, std::chrono::nanoseconds patience) {
  const SegmentHeader& header = heap.HeaderOf(pe);
  // It has given up because of another process, and no longer looks.
  if (header.failed.load(std::memory_order_acquire) != kNotFailed) return Lateness::kNone;
  switch (heap.StateOf(pe)) {
    case ProcessState::kGone:
      return Lateness::kGone;
    case ProcessState::kStopped:
      return Lateness::kStopped;
    case ProcessState::kTraced:
      return Lateness::kTraced;
    case ProcessState::kRuns:
      break;
  }
  if (header.at_end.load(std::memory_order_acquire) != 0) return Lateness::kAtEnd;
  const int64_t looked = header.waits.looked_ns.load(std::memory_order_acquire);
  if (looked == 0) return Lateness::kElsewhere;
  return SteadyNanoseconds() - looked > patience.count() ? Lateness::kAsleep : Lateness::kNone;
}

}  // namespace

const char* Words(Lateness lateness) {
  switch (lateness) {
    case Lateness::kNone:
      return "waits for others";
    case Lateness::kGone:
      return "has exited";
    case Lateness::kAtEnd:
      return "has come to the end of its program";
    case Lateness::kStopped:
      return "is stopped";
    case Lateness::kTraced:
      return "is stopped by a debugger";
    case Lateness::kElsewhere:
      return "is running, but in no collective";
    case Lateness::kAsleep:
      return "waits in a collective, but its threads do not run";
  }
  return "";
}

void PublishWaits(const Heap& heap, const std::set<int>& pes, std::string_view in) {
  WaitRecord& record = heap.OwnHeader().waits;
  uint64_t words[WaitRecord::kPes / kWordBits] = {};
  for (const int pe : pes) {
    if (pe < WaitRecord::kPes) words[pe / kWordBits] |= uint64_t{1} << pe % kWordBits;
  }
  for (int i = 0; i < WaitRecord::kPes / kWordBits; ++i) record.pes[i].store(words[i], std::memory_order_relaxed);
  record.in.Write(in);
  record.looked_ns.store(SteadyNanoseconds(), std::memory_order_release);
}

void PublishNoWaits(const Heap& heap) { heap.OwnHeader().waits.looked_ns.store(0, std::memory_order_release); }

void PublishAtEnd(SegmentHeader& own) { own.at_end.store(1, std::memory_order_release); }

std::vector<LateProcess> FindLateProcesses(const Heap& heap, const std::set<int>& pes,
                                           std::chrono::nanoseconds patience) {
  std::vector<LateProcess> late;
  std::set<int> seen;  // processes
  std::set<int> next = pes;
  while (!next.empty()) {
    const int pe = *next.begin();
    next.erase(next.begin());
    if (!heap.Reaches(pe) || !seen.insert(heap.ProcessOf(pe)).second) continue;
    if (const Lateness lateness = LatenessOf(heap, pe, patience); lateness != Lateness::kNone) {
      late.push_back({heap.ProcessOf(pe), pe, lateness});
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

std::string NameProcess(int process, int pe) {
  return "process " + std::to_string(process) + " (PE " + std::to_string(pe) + ")";
}

std::string Describe(const std::vector<LateProcess>& late) {
  std::string text;
  for (const LateProcess& each : late) text += "; " + NameProcess(each.process, each.pe) + " " + Words(each.lateness);
  return text;
}

std::string DescribeWaits(const Heap& heap, const std::set<int>& pes) {
  std::string text;
  std::set<int> seen;
  for (const int pe : pes) {
    if (heap.IsLocal(pe) || !heap.Reaches(pe) || !seen.insert(heap.ProcessOf(pe)).second) continue;
    const WaitRecord& record = heap.HeaderOf(pe).waits;
    const std::string in = record.looked_ns.load(std::memory_order_acquire) == 0 ? "" : record.in.Read();
    if (!in.empty()) text += "; " + NameProcess(heap.ProcessOf(pe), pe) + " is in " + in;
  }
  return text;
}

}  // namespace xla_shmem::shm
