#include "xla_patch/ffi/runtime.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "xla_patch/nvshmem/host/host_api.h"

namespace xla_shmem {

Runtime& Runtime::Get() {
  static Runtime* runtime = new Runtime;
  return *runtime;
}

bool Runtime::CreateSegment(const std::string& job_key_hex, int process, size_t bytes, std::string* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (own_segment_ != nullptr) {
    *error = "this process has created its segment already";
    return false;
  }
  if (!host::JobKey::Parse(job_key_hex, &job_key_)) {
    *error = "the job key \"" + job_key_hex + "\" is not 32 lower-case hex digits";
    return false;
  }
  host::SweepStale();
  process_ = process;
  segment_ = host::Segment::Create(job_key_, process, bytes, error);
  own_segment_ = segment_.get();
  if (segment_ == nullptr) return false;
  // Not from Python's atexit, which runs before JAX's shutdown barrier: a rank that is done early would take the name
  // away from those that have not attached yet.
  creator_ = getpid();
  std::atexit([] { Runtime::Get().UnlinkSegment(); });
  return true;
}

bool Runtime::Connect(const JobLayout& layout, const RuntimeOptions& options, std::string* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (connected()) return true;
  if (segment_ == nullptr) {
    *error = "this process has no shared-memory segment";
    return false;
  }
  uint32_t reachable = 0;
  for (bool process : layout.process_reachable) reachable += process;
  std::vector<std::unique_ptr<host::Segment>> segments(layout.processes);
  for (int process = 0; process < layout.processes; ++process) {
    if (process == process_ || !layout.process_reachable[process]) continue;
    segments[process] = host::Segment::Attach(job_key_, process, error);
    if (segments[process] == nullptr) return false;
  }
  segments[process_] = std::move(segment_);
  for (auto& segment : segments) {
    if (segment != nullptr) segment->NoteAttached(reachable);
  }
  heap_ = host::Heap::Create(std::move(segments), layout.process_of_pe, process_, error);
  if (heap_ == nullptr) return false;
  layout_ = layout;
  if (!SetUpPes(error)) return false;
  engine_ = std::make_unique<host::ProgressEngine>(heap_.get(), options.spin, options.deadline);
  connected_.store(true, std::memory_order_release);
  return true;
}

bool Runtime::SetUpPes(std::string* error) {
  const int n_pes = heap_->n_pes();
  const bool teams = host::SetHeap(heap_.get());
  const size_t board = heap_->Allocate(GrantBoard::Bytes(n_pes));
  // What is left is the arena: three quarters for slots, one quarter for the smallest ones (docs/protocol.md, "No
  // deadlock").
  const size_t left = heap_->bytes() - heap_->Used();
  const size_t reserve_bytes = left / 4 / host::kPageBytes * host::kPageBytes;
  const size_t arena_bytes = left / host::kPageBytes * host::kPageBytes - reserve_bytes;
  if (!teams || board == SIZE_MAX || reserve_bytes < (64 << 10)) {
    *error = "a symmetric heap of " + std::to_string(heap_->bytes()) + " bytes a PE is too small for " +
             std::to_string(n_pes) + " PEs: raise XLA_SHMEM_HEAP_SIZE (bytes a process)";
    return false;
  }
  const size_t reserve = heap_->Allocate(reserve_bytes);
  const size_t arena = heap_->Allocate(arena_bytes);
  for (int pe : heap_->local_pes()) {
    char* base = heap_->base(pe);
    boards_.push_back(std::make_unique<GrantBoard>(&host::Api(), base + board, pe, n_pes));
    pools_.push_back(std::make_unique<SlotPool>(base + arena, arena_bytes));
    SlotPool* slots = pools_.back().get();
    pools_.push_back(std::make_unique<SlotPool>(base + reserve, reserve_bytes));
    context_of_device_.emplace(layout_.device_of_pe[pe],
                               PeContext{&host::Api(), pe, base, boards_.back().get(), slots, pools_.back().get()});
  }
  return true;
}

void Runtime::UnlinkSegment() {
  // A forked child runs our exit handlers too.
  if (own_segment_ != nullptr && getpid() == creator_) own_segment_->Unlink();
}

std::string Runtime::EnsureConnected() {
  if (connected()) return "";
  if (!connect_hook_) return "the xla-shmem runtime is not running in this process";
  return connect_hook_();
}

const PeContext* Runtime::ContextOfDevice(int64_t device_id) const {
  const auto found = context_of_device_.find(device_id);
  return found == context_of_device_.end() ? nullptr : &found->second;
}

}  // namespace xla_shmem
