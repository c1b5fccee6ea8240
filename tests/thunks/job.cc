#include "tests/thunks/job.h"

#include <cstdlib>
#include <utility>

#include "tests/nvshmem/gate_operation.h"
#include "tests/nvshmem/test_heap.h"

namespace xla_shmem::testing {
namespace {

size_t CountBlocks(SlotPool* pool, size_t bytes) {
  std::vector<char*> blocks;
  while (char* block = pool->Take(bytes)) blocks.push_back(block);
  for (char* block : blocks) pool->Return(block, bytes);
  return blocks.size();
}

}  // namespace

Job::Job(const JobOptions& options) : Job(options, HeapOfOneProcess(options.n_pes, HeapBytes(options))) {}

Job::Job(const JobOptions& options, std::unique_ptr<host::Heap> heap) : heap_(std::move(heap)) {
  if (!host::SetHeap(heap_.get())) abort();
  const size_t board = heap_->Allocate(GrantBoard::Bytes(n_pes()));
  const size_t arena = heap_->Allocate(options.arena_bytes);
  const size_t reserve = heap_->Allocate(options.reserve_bytes);
  if (reserve == SIZE_MAX) abort();
  contexts_.resize(n_pes());
  for (int pe : heap_->local_pes()) {
    char* base = heap_->base(pe);
    boards_.push_back(std::make_unique<GrantBoard>(&host::Api(), base + board, pe, n_pes()));
    pools_.push_back(std::make_unique<SlotPool>(base + arena, options.arena_bytes));
    SlotPool* slots = pools_.back().get();
    pools_.push_back(std::make_unique<SlotPool>(base + reserve, options.reserve_bytes));
    contexts_[pe] = {&host::Api(), pe, base, boards_.back().get(), slots, pools_.back().get()};
  }
  engine_ = std::make_unique<host::ProgressEngine>(heap_.get(), options.spin, options.deadline);
}

Job::~Job() {
  engine_.reset();
  host::SetHeap(nullptr);
}

size_t Job::HeapBytes(const JobOptions& options) {
  const size_t teams = 2 * sizeof(uint64_t) * host::kMaxTeams * options.n_pes;
  const size_t bytes = teams + GrantBoard::Bytes(options.n_pes) + options.arena_bytes + options.reserve_bytes;
  return (bytes + (256 << 10)) / host::kPageBytes * host::kPageBytes;
}

void Job::Start(std::unique_ptr<Operation> operation, host::ProgressEngine::Completion done) {
  std::string error;
  if (engine_->TryInline(*operation, &error) || !error.empty()) {
    operation.reset();
    done(error);
  } else {
    engine_->Submit(std::move(operation), std::move(done));
  }
}

std::string Job::Finish(std::unique_ptr<Operation> operation) {
  Outcome outcome;
  Start(std::move(operation), [&](const std::string& error) { outcome.Set(error); });
  return outcome.Get();
}

size_t Job::FreeBlocks(int pe, size_t bytes) { return CountBlocks(contexts_[pe].slots, bytes); }

size_t Job::FreeReserveBlocks(int pe, size_t bytes) { return CountBlocks(contexts_[pe].reserve, bytes); }

}  // namespace xla_shmem::testing
