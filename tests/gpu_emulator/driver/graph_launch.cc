#include "driver/graph_launch.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "driver/conditionals.h"
#include "driver/counts.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/scheduler.h"

namespace emulator {
namespace {

// The run of one graph: of its nodes those that can run, and the threads that run them.
class Run {
 public:
  Run(const ExecutableGraph& graph, uint64_t seed)
      : graph_(graph), random_(seed), waits_for_(graph.nodes.size()), dependents_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      waits_for_[i] = graph.nodes[i].dependencies.size();
      for (const size_t on : graph.nodes[i].dependencies) dependents_[on].push_back(i);
      if (waits_for_[i] == 0) ready_.push_back(i);
    }
    left_ = graph.nodes.size();
  }

  void All() {
    Work();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !ready_.empty() || left_ == 0; });
      --idle_;
      if (ready_.empty()) return;
      const size_t at = ready_.size() == 1 ? 0 : random_() % ready_.size();
      const size_t index = ready_[at];
      ready_[at] = ready_.back();
      ready_.pop_back();
      // Another thread for the next node that could run: this one may wait for it.
      if (!ready_.empty() && idle_ == 0 && threads_.size() + 1 < kGraphQueues) {
        threads_.emplace_back([this] {
          const RunAs run_as(operation_);
          Work();
        });
      }
      const uint64_t seed = random_();
      lock.unlock();
      if (!HasFailed(WorkingDevice())) RunNode(graph_.nodes[index], seed);
      lock.lock();
      --left_;
      for (const size_t dependent : dependents_[index]) {
        if (--waits_for_[dependent] == 0) ready_.push_back(dependent);
      }
      changed_.notify_all();
    }
  }

  static void RunNode(const ExecutableNode& node, uint64_t seed) {
    if (!node.enabled) return;
    if (node.child != nullptr) return RunGraph(*node.child, seed);
    if (node.action->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return RunConditional(node, seed);
    if (node.action->run == nullptr) return;
    node.action->run();
    if (RunningStream() != nullptr) Count(RunningStream()->id, node.action->type, 1, 0);
  }

  static void RunConditional(const ExecutableNode& node, uint64_t seed) {
    const auto value = [&] { return ConditionalValue(*node.conditional); };
    switch (node.condition) {
      case CU_GRAPH_COND_TYPE_IF:
        if (value() != 0) {
          RunGraph(*node.bodies[0], seed);
        } else if (node.bodies.size() == 2) {
          RunGraph(*node.bodies[1], seed);
        }
        break;
      case CU_GRAPH_COND_TYPE_WHILE:
        while (value() != 0 && !HasFailed(WorkingDevice())) RunGraph(*node.bodies[0], ++seed);
        break;
      default: {
        const unsigned chosen = value();
        if (chosen < node.bodies.size()) RunGraph(*node.bodies[chosen], seed);
        break;
      }
    }
  }

  const ExecutableGraph& graph_;
  const RunningOperation operation_ = CurrentOperation();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<size_t> waits_for_;
  std::vector<std::vector<size_t>> dependents_;
  std::vector<size_t> ready_;
  std::vector<std::thread> threads_;
  size_t left_ = 0;
  int idle_ = 0;
};

}  // namespace

std::shared_ptr<ExecutableGraph> CopyOf(const ExecutableGraph& graph) {
  auto copy = std::make_shared<ExecutableGraph>(graph);
  for (ExecutableNode& node : copy->nodes) {
    if (node.child != nullptr) node.child = CopyOf(*node.child);
    for (auto& body : node.bodies) body = CopyOf(*body);
  }
  return copy;
}

void RunGraph(const ExecutableGraph& graph, uint64_t seed) { Run(graph, seed).All(); }

void LaunchOrder::Await(uint64_t turn) {
  std::unique_lock<std::mutex> lock(mutex_);
  // A failure elsewhere does not wake this thread, so it looks now and then.
  while (done_ < turn && !HasFailed(WorkingDevice())) changed_.wait_for(lock, std::chrono::milliseconds(10));
}

void LaunchOrder::Done(uint64_t turn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  done_ = std::max(done_, turn + 1);
  changed_.notify_all();
}

}  // namespace emulator
