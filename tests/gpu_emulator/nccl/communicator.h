// A communicator: the ranks of a clique, and a channel of bytes between each two of them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace emulator::nccl {

constexpr int kMaxRanks = 16;
constexpr int kMaxWindows = 1 << 12;  // registered in the life of a communicator

// Ends the process: the real library would hang, or go on with undefined results.
[[noreturn]] void Refuse(const std::string& why);
void Demand(bool holds, const std::string& otherwise);

// Bytes from one rank to another, in order.
struct Channel {
  static constexpr uint64_t kBytes = 1 << 16;
  std::atomic<uint64_t> written, read;
  char bytes[kBytes];

  // Copies as many bytes as there is room for, or as there are, and returns the number.
  uint64_t Put(const char* from, uint64_t size);
  uint64_t Take(char* to, uint64_t size);
};

// Shared by the ranks.
struct Clique {
  std::atomic<uint32_t> ranks;             // as the first one says
  std::atomic<uint32_t> taken[kMaxRanks];  // 1 + the number of its GPU
  std::atomic<uint32_t> attached;
  std::atomic<uint32_t> gone[kMaxRanks];                  // 1: destroyed or aborted its end
  std::atomic<uint64_t> windows[kMaxRanks][kMaxWindows];  // bytes
  Channel channels[kMaxRanks][kMaxRanks];                 // [from][to]; pages that nobody writes take no memory
};

class Communicator {
 public:
  // Waits for all ranks; ends the process if they do not come in GPU_EMULATOR_NCCL_TIMEOUT seconds (60).
  Communicator(const std::string& name, int ranks, int rank);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }
  Channel& To(int rank) { return clique_->channels[rank_][rank]; }
  Channel& From(int rank) { return clique_->channels[rank][rank_]; }
  bool IsGone(int rank) const { return clique_->gone[rank].load() != 0; }

  // Tells the others of a window; returns its number. WindowOf: its bytes at another rank, 0 until that has told them.
  int ShowWindow(uint64_t bytes);
  uint64_t WindowOf(int rank, int number) const { return clique_->windows[rank][number].load(); }
  // Whether the bytes of the next put come at once, and not when the peer waits for them: every second put.
  bool NextIsEarly();

  // Operations run in the order in which they were enqueued, also on several streams. Tickets count from 1; 0 is that
  // of an operation in a graph, which waits for nobody but those that run.
  uint64_t TakeTicket() { return ++tickets_; }
  // False if the communicator is aborted.
  bool BeginOperation(uint64_t ticket);
  void EndOperation(uint64_t ticket);

  void Abort();
  bool aborted() const { return aborted_.load(); }

  // Where a sum begins: another rank in each communicator, the same on all ranks.
  int first_summand() const { return first_summand_; }

 private:
  Clique* clique_ = nullptr;
  const std::string name_;
  const int ranks_;
  const int rank_;
  int first_summand_ = 0;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> tickets_{0};
  std::atomic<int> windows_{0};
  std::atomic<int64_t> puts_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t done_ = 0;
  bool running_ = false;
};

}  // namespace emulator::nccl
