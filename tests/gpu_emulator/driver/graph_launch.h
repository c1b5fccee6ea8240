// How a launched graph runs.
//
// A node runs once all nodes that it depends on are done. Which of several nodes that could run comes first is decided
// by a seed (GPU_EMULATOR_SEED), never by the order in which the nodes were added. Up to kGraphQueues nodes run at the
// same time, as on the queues of a GPU; a node that waits for memory holds its queue.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "driver/graph_objects.h"

namespace emulator {

constexpr int kGraphQueues = 8;

// A copy that later changes of the executable do not reach.
std::shared_ptr<ExecutableGraph> CopyOf(const ExecutableGraph& graph);

// Runs all nodes; returns when they are done, or when the device has failed. `seed` decides the order.
void RunGraph(const ExecutableGraph& graph, uint64_t seed);

// Launches of one executable run one after the other, in whatever streams they are.
struct LaunchOrder {
  uint64_t given = 0;  // Global() guards it

  // Blocks until the launches before number `turn` are done, or the device has failed.
  void Await(uint64_t turn);
  void Done(uint64_t turn);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t done_ = 0;
};

}  // namespace emulator
