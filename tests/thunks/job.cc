#include "tests/thunks/job.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace xla_shmem::testing {

host::JobKey RandomJobKey() {
  std::random_device device;
  auto word = [&] { return (static_cast<uint64_t>(device()) << 32) | device(); };
  return {{word(), word()}};
}

Job::Job(const JobOptions& options) {
  std::string error;
  std::vector<std::unique_ptr<host::Segment>> segments;
  segments.push_back(host::Segment::Create(RandomJobKey(), 0, host::kPageBytes + options.n_pes * options.heap_bytes, &error));
  if (segments[0] != nullptr) {
    segments[0]->NoteAttached(1);
    heap_ = host::Heap::Create(std::move(segments), std::vector<int>(options.n_pes, 0), 0, &error);
  }
  if (heap_ == nullptr || !host::SetHeap(heap_.get())) {
    std::cerr << error << std::endl;
    std::abort();
  }
  const size_t board = heap_->Allocate(GrantBoard::Bytes(options.n_pes));
  const size_t arena = heap_->Allocate(options.arena_bytes);
  const size_t reserve = heap_->Allocate(options.reserve_bytes);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    char* base = heap_->base(pe);
    boards_.push_back(std::make_unique<GrantBoard>(&host::Api(), base + board, pe, options.n_pes));
    pools_.push_back(std::make_unique<SlotPool>(base + arena, options.arena_bytes));
    pools_.push_back(std::make_unique<SlotPool>(base + reserve, options.reserve_bytes));
    contexts_.push_back({&host::Api(), pe, base, boards_[pe].get(), pools_[2 * pe].get(), pools_[2 * pe + 1].get()});
  }
  engine_ = std::make_unique<host::ProgressEngine>(heap_.get(), options.spin, options.deadline);
}

Job::~Job() {
  engine_.reset();
  host::SetHeap(nullptr);
}

void Job::Run(const std::function<void(int pe)>& body) {
  std::vector<std::thread> threads;
  for (int pe = 0; pe < n_pes(); ++pe) {
    threads.emplace_back([&body, pe] {
      host::BindPe(pe);
      body(pe);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Job::Start(std::unique_ptr<Operation> operation, host::ProgressEngine::Completion done) {
  std::string error;
  if (engine_->TryInline(*operation, &error) || !error.empty()) {
    done(error);
  } else {
    engine_->Submit(std::move(operation), std::move(done));
  }
}

std::string Job::Finish(std::unique_ptr<Operation> operation) {
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  std::string result;
  Start(std::move(operation), [&](const std::string& error) {
    std::lock_guard<std::mutex> lock(mutex);
    result = error;
    finished = true;
    changed.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return finished; });
  return result;
}

}  // namespace xla_shmem::testing
