#include "nccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "driver/named_kernels.h"
#include "driver/settings.h"
#include "driver/shared_object.h"

namespace emulator::nccl {

void Refuse(const std::string& why) {
  fprintf(stderr, "emulated NCCL: %s\n", why.c_str());
  fflush(stderr);
  abort();
}

void Demand(bool holds, const std::string& otherwise) {
  if (!holds) Refuse(otherwise);
}

uint64_t Channel::Put(const char* from, uint64_t size) {
  const uint64_t at = written.load(std::memory_order_relaxed);
  const uint64_t room = kBytes - (at - read.load(std::memory_order_acquire));
  const uint64_t count = std::min({size, room, kBytes - at % kBytes});
  memcpy(bytes + at % kBytes, from, count);
  written.store(at + count, std::memory_order_release);
  return count;
}

uint64_t Channel::Take(char* to, uint64_t size) {
  const uint64_t at = read.load(std::memory_order_relaxed);
  const uint64_t there = written.load(std::memory_order_acquire) - at;
  const uint64_t count = std::min({size, there, kBytes - at % kBytes});
  memcpy(to, bytes + at % kBytes, count);
  read.store(at + count, std::memory_order_release);
  return count;
}

Communicator::Communicator(const std::string& name, int ranks, int rank) : name_(name), ranks_(ranks), rank_(rank) {
  const std::string me = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
  Demand(ranks >= 1 && ranks <= kMaxRanks && rank >= 0 && rank < ranks, "a communicator with " + me);
  int gpu = 0;
  Demand(cuCtxGetCurrent(&context_) == CUDA_SUCCESS && cuCtxGetDevice(&device_) == CUDA_SUCCESS &&
             cuDeviceGetAttribute(&gpu, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device_) == CUDA_SUCCESS,
         "a communicator without a current CUDA context");
  clique_ = static_cast<Clique*>(MapShared(name, sizeof(Clique)));
  Demand(clique_ != nullptr, "no shared memory for " + me);
  uint32_t expected = 0;
  const bool first = clique_->ranks.compare_exchange_strong(expected, static_cast<uint32_t>(ranks));
  Demand(first || expected == static_cast<uint32_t>(ranks),
         me + ", but another rank says " + std::to_string(expected) + " ranks");
  const auto mark = static_cast<uint32_t>(gpu) + 1;
  Demand(clique_->taken[rank].exchange(mark) == 0, me + " exists twice");
  for (int other = 0; other < ranks; ++other) {
    Demand(other == rank || clique_->taken[other].load() != mark,
           me + " is on the GPU of rank " + std::to_string(other));
  }
  if (clique_->attached.fetch_add(1) + 1 == static_cast<uint32_t>(ranks)) shm_unlink(name.c_str());
  const int64_t seconds = Setting("NCCL_TIMEOUT", 60);
  Demand(WaitFor(seconds, [&] { return clique_->attached.load() == static_cast<uint32_t>(ranks); }),
         me + ": the others did not come in " + std::to_string(seconds) + " s");
  first_summand_ = static_cast<int>(std::hash<std::string>()(name) % static_cast<size_t>(ranks));
}

Communicator::~Communicator() {
  clique_->gone[rank_].store(1);
  munmap(clique_, sizeof(Clique));
}

int Communicator::ShowWindow(uint64_t bytes) {
  const int number = windows_++;
  Demand(number < kMaxWindows, "more than " + std::to_string(kMaxWindows) + " windows, which are not emulated");
  clique_->windows[rank_][number].store(bytes);
  return number;
}

bool Communicator::NextIsEarly() { return (Setting("SEED", 1) + puts_++) % 2 == 0; }

bool Communicator::BeginOperation(uint64_t ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto may_begin = [&] { return !running_ && (ticket == 0 || done_ + 1 == ticket); };
  while (!may_begin()) {
    if (aborted() || gpu_emulator_failed() != 0) return false;
    wake_.wait_for(lock, std::chrono::milliseconds(10));
  }
  running_ = true;
  return true;
}

void Communicator::EndOperation(uint64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  running_ = false;
  done_ = std::max(done_, ticket);
  wake_.notify_all();
}

void Communicator::Abort() {
  aborted_.store(true);
  clique_->gone[rank_].store(1);
}

}  // namespace emulator::nccl
