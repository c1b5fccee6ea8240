// The objects behind the driver's handles.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver/graph_objects.h"
#include "ptx/ptx.h"

namespace emulator {

struct Record {  // one cuEventRecord
  std::atomic<bool> reached{false};
  std::chrono::steady_clock::time_point when;
};
}  // namespace emulator

struct CUevent_st {
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<emulator::Record> record;  // the last one
  CUgraph capture = nullptr;                 // recorded inside a capture: the nodes it stands for
  std::vector<CUgraphNode> capture_nodes;
};
struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  CUgraph capture = nullptr;
  bool capture_origin = false;
  unsigned long long capture_id = 0;
  std::vector<CUgraphNode> tail;

  bool started = false;

  void Run();
  void Start();  // starts the thread that runs the queue
  bool Idle();
  void Wait();
};

struct CUctx_st {
  int device = 0;
  int retained = 0;
  CUstream_st null_stream;
  std::set<CUstream> streams;
};
struct CUmod_st {
  std::shared_ptr<ptx::Module> ptx;  // null: an image that is no PTX
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
  std::map<std::string, CUdeviceptr> globals;
};
struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
  const ptx::Kernel* kernel = nullptr;
  std::map<int, int> attributes;
};

namespace emulator {

// A kernel has failed: work that is enqueued or waits ends without doing anything, and calls return kFailed from then
// on, as in a context of a GPU.
extern std::atomic<bool> failed;
constexpr CUresult kFailed = CUDA_ERROR_LAUNCH_FAILED;

// Guards all objects, except for what a stream's or an event's own mutex guards.
std::recursive_mutex& Global();
using Lock = std::lock_guard<std::recursive_mutex>;

unsigned long long NextId();

}  // namespace emulator
