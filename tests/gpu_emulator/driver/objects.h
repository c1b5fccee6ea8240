// The objects behind the driver's handles.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driver/graph_objects.h"
#include "ptx/ptx.h"

namespace emulator {

struct Capture;

// One cuEventRecord: reached once the stream has come to it.
class Record {
 public:
  explicit Record(int device) : device_(device) {}
  void Reach();
  bool reached() const { return reached_.load(); }
  void Wait();  // until it is reached, or its device or the one that waits has failed
  std::chrono::steady_clock::time_point when() const { return when_; }

 private:
  const int device_;
  std::atomic<bool> reached_{false};
  std::chrono::steady_clock::time_point when_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Work in the queue of a stream.
struct Operation {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::function<void()> run;
  // Work of other streams that must be done before: that stream's operations up to a number.
  std::vector<std::pair<CUstream, uint64_t>> after;
};

}  // namespace emulator

struct CUevent_st {
  unsigned flags = 0;
  int device = 0;
  std::mutex mutex;
  std::shared_ptr<emulator::Record> record;  // the last one
  // Guarded by Global(). Recorded in a capture: the nodes that it stands for.
  std::shared_ptr<emulator::Capture> capture;
  std::vector<CUgraphNode> capture_nodes;
};

struct CUstream_st {
  CUcontext context = nullptr;
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  int hardware_queue = 0;

  // Guarded by the scheduler's mutex (scheduler.cc).
  std::deque<emulator::Operation> queue;
  uint64_t submitted = 0;  // operations so far
  uint64_t completed = 0;
  std::string work;      // what it runs, or ran last
  bool started = false;  // has a thread
  bool closing = false;  // destroyed: the thread ends once the queue is empty
  std::condition_variable changed;

  // Guarded by Global().
  std::shared_ptr<emulator::Capture> capture;
  std::vector<CUgraphNode> tail;  // on which the next captured node depends

  bool Idle();
  void Wait();  // for the work that is there now
};
struct CUctx_st {
  int device = 0;
  int retained = 0;
  unsigned flags = 0;
  CUstream_st null_stream;
  std::set<CUstream> streams;
  int created_streams = 0;
};
struct CUmod_st {
  int device = 0;
  std::shared_ptr<ptx::Module> ptx;  // null: an image that is no PTX
  std::set<std::string> twins;       // its kernels that run as native twins, whatever their PTX
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
  std::map<std::string, CUdeviceptr> globals;
};
struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
  const ptx::Kernel* kernel = nullptr;
  std::map<int, int> attributes;
  std::atomic<bool> loaded{false};  // was launched
};

namespace emulator {

// A kernel of the device has failed: work of the device that is enqueued or waits ends without doing anything, and
// calls return kFailed from then on. Other devices go on.
constexpr int kMostDevices = 64;
constexpr unsigned long long kStreamsOfDevice = 1000000;  // their ids begin at a multiple of this
bool HasFailed(int device);
void SetFailed(int device);
constexpr CUresult kFailed = CUDA_ERROR_LAUNCH_FAILED;

// Guards all objects, except for what a stream's or an event's own mutex guards.
std::recursive_mutex& Global();
using Lock = std::lock_guard<std::recursive_mutex>;

unsigned long long NextId();

}  // namespace emulator
