#include "tests/simulator/memory_model.h"

#include <cstring>
#include <string>

#include "tests/simulator/shared_memory.h"

namespace xla_shmem::simulator {
namespace {

bool Acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_consume ||
         order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

bool Releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

void WriteValue(void* address, size_t bytes, uint64_t value) { memcpy(address, &value, bytes); }

uint64_t Cut(uint64_t value, size_t bytes) { return bytes == 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1); }

Sight& Own() { return Scheduler::current()->sight; }
int Self() { return Scheduler::current()->id; }

void Note(std::vector<std::pair<int, uint32_t>>* readers, int thread, uint32_t clock) {
  for (auto& [reader, at] : *readers) {
    if (reader == thread) {
      at = clock;
      return;
    }
  }
  readers->emplace_back(thread, clock);
}

}  // namespace

MemoryModel& MemoryModel::Get() {
  static auto* const model = new MemoryModel;
  return *model;
}

uint64_t MemoryModel::Newest(const void* address, size_t bytes) const {
  uint64_t value = 0;
  memcpy(&value, address, bytes);
  return value;
}

MemoryModel::Location& MemoryModel::Find(const void* address, size_t bytes) {
  const auto key = reinterpret_cast<uintptr_t>(address);
  Location& location = locations_[key / kPageBytes][key];
  if (location.records.empty()) {
    Record first;
    first.value = Newest(address, bytes);
    location.records.push_back(std::move(first));
  }
  return location;
}

bool MemoryModel::MustSee(const Record& record, const Sight& sight, int thread, std::memory_order order) const {
  if (record.thread < 0 || record.thread == thread) return true;
  if (sight.happened.Includes(record.thread, record.clock) || sight.fenced.Includes(record.thread, record.clock)) {
    return true;
  }
  if (record.ordered != 0 && (order == std::memory_order_seq_cst || record.ordered <= sight.last_fence)) return true;
  if (order == std::memory_order_seq_cst && all_fences_.Includes(record.thread, record.clock)) return true;
  for (const auto& [reader, clock] : record.readers) {
    if (sight.happened.Includes(reader, clock)) return true;
  }
  return Scheduler::Get().now() > record.time + options_.staleness_ns;
}

void MemoryModel::Take(Record& record, std::memory_order order) {
  Sight& sight = Own();
  sight.happened.Advance(Self());
  Note(&record.readers, Self(), sight.happened.of(Self()));
  (Acquires(order) ? sight.happened : sight.acquirable).Join(record.released);
}

uint64_t MemoryModel::Load(const void* address, size_t bytes, std::memory_order order) {
  Scheduler& scheduler = Scheduler::Get();
  if (!scheduler.models_memory()) return Newest(address, bytes);
  Location& location = Find(address, bytes);
  size_t oldest = location.records.size() - 1;
  while (oldest > 0 && !MustSee(location.records[oldest], Own(), Self(), order)) --oldest;
  size_t chosen = location.records.size() - 1;
  if (oldest < chosen && !scheduler.Chance(options_.fresh_chance)) {
    chosen = oldest + scheduler.Below(location.records.size() - oldest);
  }
  Record& record = location.records[chosen];
  Take(record, order);
  scheduler.Trace(record.value);
  return Cut(record.value, bytes);
}

void MemoryModel::Append(Location& location, void* address, size_t bytes, uint64_t value, std::memory_order order,
                         const VectorClock* continued) {
  Sight& sight = Own();
  sight.happened.Advance(Self());
  Record record;
  record.value = Cut(value, bytes);
  record.thread = Self();
  record.clock = sight.happened.of(Self());
  record.time = Scheduler::Get().now();
  record.released = Releases(order) ? sight.happened : sight.release_fence;
  if (continued != nullptr) record.released.Join(*continued);
  if (order == std::memory_order_seq_cst) record.ordered = ++ordered_;
  if (location.records.size() == kRecords) location.records.erase(location.records.begin());
  location.records.push_back(std::move(record));
  sight.happened.Advance(Self());  // what this thread does from here on did not happen before the store
  WriteValue(address, bytes, value);
  Scheduler::Get().Trace(value);
}

void MemoryModel::Store(void* address, size_t bytes, uint64_t value, std::memory_order order) {
  Scheduler& scheduler = Scheduler::Get();
  if (!scheduler.models_memory()) return WriteValue(address, bytes, value);
  Append(Find(address, bytes), address, bytes, value, order, nullptr);
}

uint64_t MemoryModel::Modify(void* address, size_t bytes, const std::function<uint64_t(uint64_t)>& change,
                             std::memory_order order) {
  Scheduler& scheduler = Scheduler::Get();
  const uint64_t before = Newest(address, bytes);
  if (!scheduler.models_memory()) {
    WriteValue(address, bytes, change(before));
    return before;
  }
  Location& location = Find(address, bytes);
  Take(location.records.back(), order);
  const VectorClock continued = location.records.back().released;
  Append(location, address, bytes, change(before), order, &continued);
  return before;
}

bool MemoryModel::CompareExchange(void* address, size_t bytes, uint64_t* expected, uint64_t desired,
                                  std::memory_order order, std::memory_order failure) {
  const uint64_t found = Newest(address, bytes);
  if (found == Cut(*expected, bytes)) {
    Modify(address, bytes, [&](uint64_t) { return desired; }, order);
    return true;
  }
  Scheduler& scheduler = Scheduler::Get();
  if (scheduler.models_memory()) {
    Take(Find(address, bytes).records.back(), failure);
  }
  *expected = found;
  return false;
}

void MemoryModel::Fence(std::memory_order order) {
  Scheduler& scheduler = Scheduler::Get();
  if (!scheduler.models_memory()) return;
  Sight& sight = Own();
  if (Acquires(order)) sight.happened.Join(sight.acquirable);
  if (order == std::memory_order_seq_cst) {
    sight.fenced.Join(all_fences_);
    sight.last_fence = ++ordered_;
    all_fences_.Join(sight.happened);
  }
  if (Releases(order)) sight.release_fence = sight.happened;
  sight.happened.Advance(Self());
}

template <typename Visit>
void MemoryModel::ForEachLine(const void* address, size_t bytes, Visit visit) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uintptr_t line = begin / kLineBytes; line * kLineBytes < begin + bytes; ++line) {
    auto& page = lines_[line * kLineBytes / kPageBytes];
    if (page == nullptr) page = std::make_unique<std::array<Line, kPageBytes / kLineBytes>>();
    visit((*page)[line % (kPageBytes / kLineBytes)], reinterpret_cast<const char*>(line * kLineBytes));
  }
}

void MemoryModel::Read(const void* address, size_t bytes) {
  Scheduler& scheduler = Scheduler::Get();
  if (!scheduler.models_memory() || bytes == 0) return;
  const Sight& sight = Own();
  ForEachLine(address, bytes, [&](Line& line, const char* at) {
    if (line.writer >= 0 && line.writer != Self() && !sight.happened.Includes(line.writer, line.written)) {
      scheduler.Fail("race: reads " + SharedMemory::Get().Describe(at) + ", which thread " +
                     std::to_string(line.writer) + " has written without an order between them");
    }
    Note(&line.readers, Self(), sight.happened.of(Self()));
  });
}

void MemoryModel::Write(void* address, size_t bytes) {
  Scheduler& scheduler = Scheduler::Get();
  if (!scheduler.models_memory() || bytes == 0) return;
  const Sight& sight = Own();
  ForEachLine(address, bytes, [&](Line& line, const char* at) {
    const auto fail = [&](int other, const char* did) {
      scheduler.Fail("race: writes " + SharedMemory::Get().Describe(at) + ", which thread " + std::to_string(other) +
                     " has " + did + " without an order between them");
    };
    if (line.writer >= 0 && line.writer != Self() && !sight.happened.Includes(line.writer, line.written)) {
      fail(line.writer, "written");
    }
    for (const auto& [reader, clock] : line.readers) {
      if (reader != Self() && !sight.happened.Includes(reader, clock)) fail(reader, "read");
    }
    line.readers.clear();
    line.writer = Self();
    line.written = sight.happened.of(Self());
  });
}

void MemoryModel::Forget(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  for (uintptr_t page = begin / kPageBytes; page * kPageBytes < end; ++page) {
    const auto found = locations_.find(page);
    if (found == locations_.end()) continue;
    for (auto location = found->second.begin(); location != found->second.end();) {
      const bool inside = location->first >= begin && location->first < end;
      location = inside ? found->second.erase(location) : std::next(location);
    }
  }
}

void MemoryModel::Acquire(const VectorClock& clock) {
  if (Scheduler::Get().models_memory()) Own().happened.Join(clock);
}

void MemoryModel::Release(VectorClock* clock) {
  if (!Scheduler::Get().models_memory()) return;
  clock->Join(Own().happened);
  Own().happened.Advance(Self());
}

}  // namespace xla_shmem::simulator
