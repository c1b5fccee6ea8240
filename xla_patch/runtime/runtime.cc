#include "xla_patch/runtime/runtime.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "xla_patch/shm/copy_timer.h"

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
  if (!shm::JobKey::Parse(job_key_hex, &job_key_)) {
    *error = "the job key \"" + job_key_hex + "\" is not 32 lower-case hex digits";
    return false;
  }
  shm::SweepStale();
  process_ = process;
  segment_ = shm::Segment::Create(job_key_, process, bytes, error);
  own_segment_ = segment_.get();
  if (segment_ == nullptr) return false;
  // Not from Python's atexit, which runs before JAX's shutdown barrier: a rank that is done early would take the name
  // away from those that have not attached yet.
  creator_ = getpid();
  std::atexit([] { Runtime::Get().UnlinkSegment(); });
  return true;
}

std::vector<std::string> Runtime::StartObserver(const observe::ObserverOptions& options,
                                                const std::vector<int>& processes, const std::vector<int>& local_pes) {
  if (options.statistics || !options.trace_file.empty()) shm::EnableCopyTimer();
  std::vector<std::string> troubles = observer_.Start(options, process_, processes, local_pes);
  // After JAX's shutdown barrier, like the segment's name.
  std::atexit([] { Runtime::Get().CloseObserver(); });
  return troubles;
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
  std::vector<std::unique_ptr<shm::Segment>> segments(layout.processes);
  for (int process = 0; process < layout.processes; ++process) {
    if (process == process_ || !layout.process_reachable[process]) continue;
    segments[process] = shm::Segment::Attach(job_key_, process, error);
    if (segments[process] == nullptr) return false;
  }
  segments[process_] = std::move(segment_);
  for (auto& segment : segments) {
    if (segment != nullptr) segment->NoteAttached(reachable);
  }
  heap_ = shm::Heap::Create(std::move(segments), layout.process_of_pe, process_, error);
  if (heap_ == nullptr) return false;
  layout_ = layout;
  if (options.single_copy == shm::SingleCopy::kOff) shm::PermitReaders(false);
  pes_ = LocalPes::Create({options.single_copy}, heap_.get(), error);
  if (pes_ == nullptr) return false;
  for (int pe : heap_->local_pes()) context_of_device_.emplace(layout_.device_of_pe[pe], pes_->context(pe));
  engine_ = std::make_unique<shm::ProgressEngine>(heap_.get(), options.spin, options.deadline);
  connected_.store(true, std::memory_order_release);
  return true;
}

void Runtime::UnlinkSegment() {
  // A forked child runs our exit handlers too.
  if (own_segment_ != nullptr && getpid() == creator_) own_segment_->Unlink();
}

void Runtime::CloseObserver() {
  if (getpid() == creator_) observer_.Close();
}

std::string Runtime::EnsureConnected() {
  if (connected()) return "";
  if (!connect_hook_) return "the xla-shmem runtime is not running in this process";
  return connect_hook_();
}

const PeContext* Runtime::ContextOfDevice(int64_t device_id) const {
  const auto found = context_of_device_.find(device_id);
  return found == context_of_device_.end() ? nullptr : found->second;
}

}  // namespace xla_shmem
