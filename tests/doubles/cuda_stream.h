// Doubles a CUDA stream and CUDA graphs on the host, for tests only: commands run in the order they were enqueued, on
// the thread that advances the stream. The first wait that is not satisfied stops the stream; `Advance` tries again.
// Captured commands do not run; `Launch` runs them any number of times. One thread at a time may use a stream.
#ifndef XLA_SHMEM_TESTS_DOUBLES_CUDA_STREAM_H_
#define XLA_SHMEM_TESTS_DOUBLES_CUDA_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/shm/futex.h"

namespace xla_shmem::nvshmem_double {

struct Command {
  enum class Kind : uint8_t { kCopy, kFill, kSignal, kWait, kHostFunc, kTask };
  Kind kind;
  uint8_t compare_or_op = 0;  // SignalCompare of kWait, SignalOp of kSignal, byte value of kFill
  void* destination = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  // kSignal: the remote word and its value, and the doorbell of its owner (may be null). kWait: the local word.
  uint64_t* word = nullptr;
  uint64_t value = 0;
  shm::Doorbell* bell = nullptr;
  void (*function)(void*) = nullptr;
  bool (*poll)(void*) = nullptr;  // kTask: starts the task at first; true once it has ended
};

class Stream {
 public:
  // `eager`: a command whose predecessors have all run is run by Append. Otherwise only Advance and Step run commands.
  explicit Stream(bool eager = true) : eager_(eager) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Append(const Command& command);
  // Runs what can run; true when nothing is left.
  bool Advance();
  // Runs one command if it can; false if the stream is idle or blocked.
  bool Step();
  bool Idle() const { return next_ == commands_.size(); }
  // How many commands have not run.
  size_t Left() const { return commands_.size() - next_; }
  // The wait that stops the stream, or null.
  const Command* BlockedOn() const { return Idle() ? nullptr : &commands_[next_]; }
  // Drops what has not run (after an error).
  void Abandon();

  void BeginCapture() { capturing_ = true; }
  std::vector<Command> EndCapture();
  void Launch(const std::vector<Command>& graph);

 private:
  const bool eager_;
  std::vector<Command> commands_;
  size_t next_ = 0;
  bool capturing_ = false;
  std::vector<Command> captured_;
};

// Value of a signal word, with the order a wait needs.
inline uint64_t LoadSignal(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace xla_shmem::nvshmem_double

#endif  // XLA_SHMEM_TESTS_DOUBLES_CUDA_STREAM_H_
