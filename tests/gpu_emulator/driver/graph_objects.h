// Graphs, their nodes and their executables. Global() guards all of them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace emulator {

// Where an operand of a copy or a fill lies: what an update of an executable must not change.
struct Place {
  bool known = false;
  unsigned memory_type = 0;
  int device = 0;
};

// What a node does once it runs. Never changed: clones, executables and launches share it.
struct Action {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::function<void()> run;  // null: nothing to do
  CUcontext context = nullptr;
  bool one_dimensional = true;  // of a copy or a fill
  Place source, destination;
  size_t rows = 1;          // of a fill
  unsigned operations = 0;  // of a batch of memory operations
};

using ActionPointer = std::shared_ptr<const Action>;

// The value behind a conditional handle. Graphs and executables share it.
struct Conditional {
  CUgraphConditionalHandle handle = 0;
  CUcontext context = nullptr;
  CUgraphNode node = nullptr;  // that decides by it
  bool has_default = false;
  unsigned default_value = 0;
  int launches = 0;  // that are running
  unsigned value = 0;

  Conditional();
  ~Conditional();
  Conditional(const Conditional&) = delete;
  Conditional& operator=(const Conditional&) = delete;
};
using ConditionalPointer = std::shared_ptr<Conditional>;

}  // namespace emulator

struct CUgraphNode_st {
  CUgraph owner = nullptr;
  uint64_t id = 0;  // never given twice: executables know their nodes by it
  emulator::ActionPointer action;
  std::vector<CUgraphNode> dependencies;
  std::unique_ptr<CUgraph_st> child;                // a child graph
  std::vector<std::unique_ptr<CUgraph_st>> bodies;  // of a conditional node
  std::vector<CUgraph> body_handles;                // the array that the driver hands out
  emulator::ConditionalPointer conditional;
  CUgraphConditionalNodeType condition = CU_GRAPH_COND_TYPE_IF;
  int priority = 0;

  CUgraphNodeType type() const { return action->type; }
  CUgraphNode_st();
  ~CUgraphNode_st();
  CUgraphNode_st(const CUgraphNode_st&) = delete;
  CUgraphNode_st& operator=(const CUgraphNode_st&) = delete;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // in the order in which they were added
  CUgraphNode parent = nullptr;                        // the node that owns this graph
  std::vector<emulator::ConditionalPointer> handles;   // created for this graph
  int captures = 0;                                    // that add nodes to it now
  CUgraphExec only_exec = nullptr;                     // with conditional nodes: the one executable that may exist

  CUgraph_st();
  ~CUgraph_st();
  CUgraph_st(const CUgraph_st&) = delete;
  CUgraph_st& operator=(const CUgraph_st&) = delete;
};

namespace emulator {

// A graph as an executable runs it. A launch runs a copy, so what is set later is for later launches.
struct ExecutableGraph;
struct ExecutableNode {
  uint64_t id = 0;
  ActionPointer action;
  bool enabled = true;
  std::vector<size_t> dependencies;  // indices
  std::shared_ptr<ExecutableGraph> child;
  std::vector<std::shared_ptr<ExecutableGraph>> bodies;
  ConditionalPointer conditional;
  CUgraphConditionalNodeType condition = CU_GRAPH_COND_TYPE_IF;
};
struct ExecutableGraph {
  std::vector<ExecutableNode> nodes;
  std::vector<ConditionalPointer> handles;
};

// The launches of one executable, which run one after the other.
struct LaunchOrder;

}  // namespace emulator

struct CUgraphExec_st {
  std::shared_ptr<emulator::ExecutableGraph> graph;
  std::unordered_map<uint64_t, emulator::ExecutableNode*> node_of;
  CUgraph conditional_source = nullptr;  // the graph whose only executable this is
  std::shared_ptr<emulator::LaunchOrder> order;
  unsigned long long flags = 0;

  CUgraphExec_st();
  ~CUgraphExec_st();
  CUgraphExec_st(const CUgraphExec_st&) = delete;
  CUgraphExec_st& operator=(const CUgraphExec_st&) = delete;
};
