#include "xla_patch/runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/shm/inquiry.h"
#include "xla_patch/shm/late_processes.h"

namespace xla_shmem {
namespace {

// How often the collectives of the default backend are looked at.
constexpr std::chrono::seconds kLookAtMarked{1};

}  // namespace

Runtime& Runtime::Get() {
  static Runtime* runtime = new Runtime;
  return *runtime;
}

Status Runtime::CreateSegment(const std::string& key_hex, int process, size_t bytes, shm::Readers readers) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (creator_ != 0) return Status::Error("this process has created its segment already");
  const Result<shm::JobKey> key = shm::JobKey::Parse(key_hex);
  if (!key.ok()) return key.status();
  segment_key_ = *key;
  process_ = process;
  shm::SweepStale();
  Result<std::unique_ptr<shm::Segment>> segment = shm::Segment::Create(segment_key_, process, bytes);
  if (!segment.ok()) return segment.status();
  segment_ = *std::move(segment);
  shm::PermitReaders(readers);
  // Not in an atexit handler of Python, which runs before JAX's shutdown barrier: a rank that finishes early would
  // remove the name before the other ranks have attached.
  creator_ = getpid();
  std::atexit([] { Runtime::Get().UnlinkSegment(); });
  return Status();
}

std::vector<std::string> Runtime::StartObserver(const observe::ObserverOptions& options,
                                                const std::vector<int>& processes, const std::vector<int>& local_pes) {
  if (options.statistics || !options.trace_file.empty()) shm::EnableCopyTimer();
  std::vector<std::string> warnings = observer_.Start(options, process_, processes, local_pes);
  // Runs after JAX's shutdown barrier, like the unlinking of the segment.
  on_exit([](int code, void*) { Runtime::Get().CloseObserver(code); }, nullptr);
  return warnings;
}

Status Runtime::Connect(const JobLayout& layout, const RuntimeOptions& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (connected()) return Status();
  if (!connect_failure_.ok()) return connect_failure_;
  if (segment_ == nullptr) return Status::Error("this process has no shared-memory segment");
  Result<std::vector<std::unique_ptr<shm::Segment>>> segments = AttachSegments(layout);
  if (!segments.ok()) return segments.status();
  connect_failure_ = ConnectTo(*std::move(segments), layout, options);
  return connect_failure_;
}

Status Runtime::ConnectTo(std::vector<std::unique_ptr<shm::Segment>> segments, const JobLayout& layout,
                          const RuntimeOptions& options) {
  Result<std::unique_ptr<shm::Heap>> heap = shm::Heap::Create(std::move(segments), layout.process_of_pe, process_);
  if (!heap.ok()) return heap.status();
  heap_ = *std::move(heap);
  layout_ = layout;
  finish_in_caller_ = options.finish_in_caller;
  Result<std::unique_ptr<LocalPes>> pes = LocalPes::Create({options.single_copy}, heap_.get());
  if (!pes.ok()) return pes.status();
  pes_ = *std::move(pes);
  observer_.SetPair([this](const std::vector<PeerOperation>& operations) { pes_->peer_operations().Add(operations); });
  for (int pe : heap_->local_pes()) context_of_device_.emplace(layout_.device_of_pe[pe], pes_->context(pe));
  engine_ = std::make_unique<shm::ProgressEngine>(heap_.get(), options.spin, options.limits);
  const auto look_every = std::min<std::chrono::nanoseconds>(kLookAtMarked, options.limits.late_after / 4);
  marked_ = std::make_unique<MarkedCollectives>(heap_.get(), engine_.get(), &observer_, look_every);
  connected_.store(true, std::memory_order_release);
  return Status();
}

Result<std::vector<std::unique_ptr<shm::Segment>>> Runtime::AttachSegments(const JobLayout& layout) {
  uint32_t reachable = 0;
  for (bool process : layout.process_reachable) reachable += process;
  std::vector<std::unique_ptr<shm::Segment>> segments(layout.processes);
  for (int process = 0; process < layout.processes; ++process) {
    if (process == process_ || !layout.process_reachable[process]) continue;
    Result<std::unique_ptr<shm::Segment>> segment = shm::Segment::Attach(layout.segment_keys[process], process);
    if (!segment.ok()) return segment.status();
    segments[process] = *std::move(segment);
  }
  segments[process_] = std::move(segment_);
  for (auto& segment : segments) {
    if (segment != nullptr) segment->NoteAttached(reachable);
  }
  return segments;
}

void Runtime::MarkAtEnd() {
  if (getpid() != creator_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  shm::SegmentHeader* header = segment_ == nullptr ? nullptr : &segment_->header();
  if (heap_ != nullptr) header = &heap_->OwnHeader();
  if (header != nullptr) shm::PublishAtEnd(*header);
}

Runtime::Peers Runtime::CountPeers() const {
  Peers peers;
  int before = process_;
  for (int pe = 0; connected() && pe < heap_->n_pes(); ++pe) {
    const int process = heap_->ProcessOf(pe);
    if (process == process_ || process == before || !heap_->Reaches(pe)) continue;
    before = process;  // PEs of a process are consecutive
    const shm::ProcessState state = heap_->StateOf(pe);
    if (state == shm::ProcessState::kGone || state == shm::ProcessState::kStopped) {
      ++peers.lost;
    } else if (heap_->HeaderOf(pe).at_end.load(std::memory_order_acquire) != 0) {
      ++peers.at_end;
    } else {
      ++peers.running;
    }
  }
  return peers;
}

uint32_t Runtime::AwaitQuestion() {
  while (connected() && !stops_questions_.load(std::memory_order_acquire)) {
    const uint32_t question = shm::AwaitQuestion(heap_->OwnHeader(), last_question_);
    if (question == last_question_ || stops_questions_.load(std::memory_order_acquire)) continue;
    return last_question_ = question;
  }
  return 0;
}

void Runtime::Answer(uint32_t question, const std::string& text) { shm::Answer(heap_->OwnHeader(), question, text); }

void Runtime::StopQuestions() {
  stops_questions_.store(true, std::memory_order_release);
  if (connected()) shm::StopAwaiting(heap_->OwnHeader());
}

void Runtime::UnlinkSegment() {
  // A forked child also runs the exit handlers. By name, because a failed Connect has destroyed the segment.
  if (getpid() == creator_) shm::UnlinkSegment(segment_key_, process_);
}

void Runtime::CloseObserver(int exit_code) {
  if (getpid() == creator_) observer_.Close(exit_code);
}

Status Runtime::EnsureConnected() {
  if (connected()) return Status();
  if (!connect_hook_) return Status::Error("the xla-shmem runtime is not running in this process");
  return connect_hook_();
}

const PeContext* Runtime::ContextOfDevice(int64_t device_id) const {
  const auto found = context_of_device_.find(device_id);
  return found == context_of_device_.end() ? nullptr : found->second;
}

}  // namespace xla_shmem
