#include "tests/thunks/cpu/job.h"

#include <utility>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/count_blocks.h"
#include "tests/types/value_of.h"

namespace xla_shmem::testing {

Job::Job(const JobOptions& options) : Job(options, HeapOfOneProcess(options.n_pes, HeapBytes(options))) {}

Job::Job(const JobOptions& options, std::unique_ptr<shm::Heap> heap) : heap_(std::move(heap)) {
  pes_ = ValueOf(LocalPes::Create(
      {options.single_copy, options.arena_bytes, options.reserve_bytes, options.llc_share, options.in_process},
      heap_.get()));
  engine_ = std::make_unique<shm::ProgressEngine>(heap_.get(), options.spin, options.deadline);
}

Job::~Job() = default;

void Job::RunPes(const std::function<void(int pe)>& body) {
  if (threads_ == nullptr) threads_ = std::make_unique<PeThreads>(n_pes());
  threads_->Run(body);
}

size_t Job::HeapBytes(const JobOptions& options) {
  // Mailboxes as large as in a large heap.
  const size_t mailboxes = Mailboxes::Bytes(Mailboxes::EagerBytes(size_t{1} << 40, options.n_pes), options.n_pes);
  const size_t bytes = mailboxes + ProtocolChoice::Bytes() + GrantBoard::Bytes(options.n_pes) + options.arena_bytes +
                       options.reserve_bytes;
  return (bytes + (256 << 10)) / shm::kPageBytes * shm::kPageBytes;
}

void Job::Start(std::unique_ptr<Operation> operation, shm::ProgressEngine::Completion done) {
  const Result<bool> finished = engine_->TryInline(*operation);
  if (!finished.ok() || *finished) {
    operation.reset();
    done(finished.status());
  } else {
    engine_->Submit(std::move(operation), std::move(done));
  }
}

std::string Job::Finish(std::unique_ptr<Operation> operation) {
  Outcome outcome;
  Start(std::move(operation), [&](const Status& status) { outcome.Set(status.message()); });
  return outcome.Get();
}

size_t Job::FreeBlocks(int pe, size_t bytes) { return CountBlocks(context(pe).slots, bytes); }

size_t Job::FreeReserveBlocks(int pe, size_t bytes) { return CountBlocks(context(pe).reserve, bytes); }

}  // namespace xla_shmem::testing
