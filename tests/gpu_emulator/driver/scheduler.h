// When work of streams runs.
//
// Each stream has a thread, so its operations run in order, later than the call that submitted them, and beside those
// of other streams. A seed (GPU_EMULATOR_SEED) decides how long each operation is held back: its number in the stream
// and the stream's number give the delay, so the same program gets the same delays. GPU_EMULATOR_DELAY is the longest,
// in microseconds (300).
//
// Hardware queues. Streams share CUDA_DEVICE_MAX_CONNECTIONS hardware queues (8; 1 to 32). CUDA documents the number,
// and that work of streams which share a queue can be falsely dependent. These are conservative assumptions:
//  * streams take queues in turn as they are created, whatever their priority; the null stream has the first one;
//  * a queue issues operations in order of submission. An operation is issued when the one before it in its stream is
//    done; until then, what lies behind it in the queue waits, of whatever stream;
//  * waits for events, waits for words in memory, and host functions hold their queue until they are done.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "driver/objects.h"

namespace emulator {

int HardwareQueues();

// Adds work to a stream; returns its number, for WaitForOperation.
uint64_t Submit(CUstream stream, Operation operation);

// Blocks until the stream has done its first `count` operations, or its device has failed.
void WaitForOperations(CUstream stream, uint64_t count);

// The same until a moment: false if it has come first.
bool WaitForOperationsUntil(CUstream stream, uint64_t count, std::chrono::steady_clock::time_point moment);

// Operations that the stream has not done yet.
uint64_t Pending(CUstream stream);

// "stream 2 of device 0 runs kernel fusion_2, and 3 operations wait behind it": for messages, of all streams.
std::string PendingWork();

// True if the stream has work.
bool IsBusy(CUstream stream);

// The number of operations that the stream has been given.
uint64_t Submitted(CUstream stream);

// No more work comes; the stream's thread ends, and frees the stream, once it is empty.
void CloseStream(CUstream stream);

// Wakes all that wait, after a failure.
void WakeStreams();

// Sleeps between looks at a word that changes by other processes or threads: 20 us at first, 1 ms in the end.
class BackOff {
 public:
  void Pause();

 private:
  int64_t pause_us_ = 20;
  int64_t slept_us_ = 0;
};

// The stream whose work this thread runs, or null: what the thread does stands for the GPU then.
CUstream RunningStream();

// For threads that do a part of a stream's operation, such as a node of a graph.
struct RunningOperation {
  CUstream stream = nullptr;
  uint64_t number = 0;
};
RunningOperation CurrentOperation();
class RunAs {
 public:
  explicit RunAs(const RunningOperation& operation);
  ~RunAs();
  RunAs(const RunAs&) = delete;
  RunAs& operator=(const RunAs&) = delete;

 private:
  RunningOperation before_;
};

// What the thread's work is called in messages ("cuMemcpyAsync", "kernel fusion_2"). The text must outlive the scope.
// The stream that runs it shows the name too.
class WorkName {
 public:
  explicit WorkName(const char* name);
  ~WorkName();
  WorkName(const WorkName&) = delete;
  WorkName& operator=(const WorkName&) = delete;

 private:
  const char* before_;
};
const char* RunningWork();

// A number that depends on the seed, on the stream and on the operation that run in this thread, and on `salt` alone.
uint64_t Decision(uint64_t salt);

}  // namespace emulator
