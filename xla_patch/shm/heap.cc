#include "xla_patch/shm/heap.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace xla_shmem::shm {
namespace {

constexpr size_t kMinimumHeapBytes = 256 << 10;
constexpr size_t kAlignment = 64;  // one cache line: signals of different slots never share one

}  // namespace

Result<std::unique_ptr<Heap>> Heap::Create(std::vector<std::unique_ptr<Segment>> segments,
                                           const std::vector<int>& process_of_pe, int own_process) {
  std::unique_ptr<Heap> heap(new Heap);
  heap->own_process_ = own_process;
  std::vector<size_t> pes_in(segments.size(), 0);
  for (int process : process_of_pe) ++pes_in[process];
  heap->bytes_ = SIZE_MAX;
  for (size_t process = 0; process < segments.size(); ++process) {
    if (segments[process] == nullptr || pes_in[process] == 0) continue;
    const size_t share = segments[process]->payload_bytes() / pes_in[process];
    heap->bytes_ = std::min(heap->bytes_, share / kPageBytes * kPageBytes);
  }
  if (heap->bytes_ < kMinimumHeapBytes) {
    return Status::Error("the symmetric heap would be " + std::to_string(heap->bytes_) + " bytes a PE, and at least " +
                         std::to_string(kMinimumHeapBytes) +
                         " are needed: raise XLA_SHMEM_HEAP_SIZE (bytes a process)");
  }
  heap->own_payload_ = segments[own_process]->payload();
  std::vector<size_t> placed(segments.size(), 0);
  for (size_t pe = 0; pe < process_of_pe.size(); ++pe) {
    const int process = process_of_pe[pe];
    Segment* segment = segments[process].get();
    char* base = segment == nullptr ? nullptr : segment->payload() + placed[process]++ * heap->bytes_;
    heap->locations_.push_back({process, segment, base});
    if (process == own_process) heap->local_pes_.push_back(static_cast<int>(pe));
  }
  heap->segments_ = std::move(segments);
  return heap;
}

size_t Heap::OffsetOf(const void* address) const {
  return static_cast<size_t>(static_cast<const char*>(address) - own_payload_) % bytes_;
}

size_t Heap::Allocate(size_t bytes) {
  std::lock_guard<std::mutex> lock(allocate_mutex_);
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes || rounded > bytes_ - allocated_) return SIZE_MAX;
  return std::exchange(allocated_, allocated_ + rounded);
}

void Heap::Fail(const std::string& why) {
  SegmentHeader& header = segments_[own_process_]->header();
  uint32_t expected = kNotFailed;
  if (!header.failed.compare_exchange_strong(expected, kFailing, std::memory_order_seq_cst)) return;
  const size_t length = std::min(why.size(), kFailureTextBytes - 1);
  memcpy(header.failure_text, why.data(), length);
  header.failure_text[length] = '\0';
  header.failed.store(kFailed, std::memory_order_release);
  for (const auto& segment : segments_) {
    if (segment != nullptr) Ring(segment->header().doorbell);
  }
}

void Heap::FollowFailure() {
  uint32_t expected = kNotFailed;
  segments_[own_process_]->header().failed.compare_exchange_strong(expected, kFollowing, std::memory_order_seq_cst);
}

Status Heap::JobStatus() const {
  for (size_t process = 0; process < segments_.size(); ++process) {
    if (segments_[process] == nullptr) continue;
    const SegmentHeader& header = segments_[process]->header();
    if (header.failed.load(std::memory_order_acquire) != kFailed) continue;
    const bool own = static_cast<int>(process) == own_process_;
    return Status::Error((own ? "" : "process " + std::to_string(process) + " gave up: ") +
                         std::string(header.failure_text));
  }
  return Status();
}

bool Heap::IsOversubscribed() const {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return false;
  const int allowed = CPU_COUNT(&processors);
  if (allowed > 1) return ReachablePes() > allowed;
  return local_pes_.size() > 1 || ReachablePes() > sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace xla_shmem::shm
