// A stream of the host implementation: commands that run in the order they were enqueued, on whichever thread advances
// it.
//
// A command whose predecessors have all run is executed where it is enqueued, so a transfer that nothing holds up costs
// no hand-over. The first unsatisfied wait stops the stream; `Advance` tries again. A stream belongs to one thread at a
// time. `BeginCapture`/`EndCapture`/`Launch` mirror CUDA graphs: captured commands do not run, and can be launched any
// number of times.
#ifndef XLA_SHMEM_TESTS_DOUBLES_STREAM_H_
#define XLA_SHMEM_TESTS_DOUBLES_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/shm/futex.h"

namespace xla_shmem::shm {

struct Command {
  enum class Kind : uint8_t { kCopy, kFill, kSignal, kWait, kHostFunc };
  Kind kind;
  uint8_t compare_or_op = 0;  // SignalCompare of kWait, SignalOp of kSignal, byte value of kFill
  void* destination = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  // kSignal: the remote word and its value, and the doorbell of its owner (may be null). kWait: the local word.
  uint64_t* word = nullptr;
  uint64_t value = 0;
  Doorbell* bell = nullptr;
  void (*function)(void*) = nullptr;
};

class Stream {
 public:
  // `eager`: a command that nothing holds up runs where it is enqueued. Otherwise nothing runs but in Advance and Step.
  explicit Stream(bool eager = true) : eager_(eager) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Append(const Command& command);
  // Runs what can run; true when nothing is left.
  bool Advance();
  // Runs one command if it can; false if the stream is idle or blocked.
  bool Step();
  bool Idle() const { return next_ == commands_.size(); }
  // The wait that holds the stream up, or null.
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

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_TESTS_DOUBLES_STREAM_H_
