// Graphs: their life, their nodes and edges, and copies of them.
#include "driver/graphs.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver/log.h"
#include "driver/objects.h"

namespace emulator {
namespace {

// The objects that exist. A handle that is not here was destroyed, and using it is an error that a GPU need not notice.
std::unordered_set<const void*>& Live() {
  static auto* live = new std::unordered_set<const void*>;
  return *live;
}

bool IsLive(const void* object, const char* kind, const char* call) {
  if (object == nullptr) return false;
  const Lock lock(Global());
  if (Live().count(object) != 0) return true;
  Complain("%s: %s %p does not exist, or does not exist any more", call, kind, object);
  abort();
}

// The edges as pairs of nodes.
std::vector<std::pair<CUgraphNode, CUgraphNode>> Edges(const CUgraph_st& graph) {
  std::vector<std::pair<CUgraphNode, CUgraphNode>> edges;
  for (const auto& node : graph.nodes) {
    for (const CUgraphNode on : node->dependencies) edges.emplace_back(on, node.get());
  }
  return edges;
}

CUresult CopyOut(const std::vector<CUgraphNode>& found, CUgraphNode* nodes, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
    *count = std::min(*count, found.size());
  } else {
    *count = found.size();
  }
  return CUDA_SUCCESS;
}

bool HasNode(const CUgraph_st& graph, CUgraphNode node) { return node != nullptr && node->owner == &graph; }

}  // namespace
}  // namespace emulator

CUgraphNode_st::CUgraphNode_st() : id(emulator::NextId()) {
  const emulator::Lock lock(emulator::Global());
  emulator::Live().insert(this);
}
CUgraphNode_st::~CUgraphNode_st() {
  const emulator::Lock lock(emulator::Global());
  if (conditional != nullptr && conditional->node == this) conditional->node = nullptr;
  emulator::Live().erase(this);
}
CUgraph_st::CUgraph_st() {
  const emulator::Lock lock(emulator::Global());
  emulator::Live().insert(this);
}
CUgraph_st::~CUgraph_st() {
  const emulator::Lock lock(emulator::Global());
  if (only_exec != nullptr) only_exec->conditional_source = nullptr;
  nodes.clear();  // before the handles, which they give back
  emulator::Live().erase(this);
}
CUgraphExec_st::CUgraphExec_st() {
  const emulator::Lock lock(emulator::Global());
  emulator::Live().insert(this);
}
CUgraphExec_st::~CUgraphExec_st() {
  const emulator::Lock lock(emulator::Global());
  if (conditional_source != nullptr) conditional_source->only_exec = nullptr;
  emulator::Live().erase(this);
}

namespace emulator {

std::vector<CUgraphNode> List(const CUgraphNode* nodes, size_t count) {
  return count == 0 ? std::vector<CUgraphNode>() : std::vector<CUgraphNode>(nodes, nodes + count);
}

bool IsGraph(CUgraph graph, const char* call) { return IsLive(graph, "graph", call); }
bool IsNode(CUgraphNode node, const char* call) { return IsLive(node, "graph node", call); }
bool IsExecutable(CUgraphExec exec, const char* call) { return IsLive(exec, "executable graph", call); }

bool MayBeConditional(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

bool IsInConditionalBody(CUgraph graph) {
  for (CUgraphNode node = graph->parent; node != nullptr; node = node->owner->parent) {
    if (node->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL) return true;
  }
  return false;
}

CUgraphNode FindUnconditional(const CUgraph_st& graph) {
  for (const auto& node : graph.nodes) {
    if (!MayBeConditional(node->type())) return node.get();
    if (node->child == nullptr) continue;
    if (const CUgraphNode below = FindUnconditional(*node->child)) return below;
  }
  return nullptr;
}

bool HasConditionals(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL || (node->child != nullptr && HasConditionals(*node->child));
  });
}

CUresult CheckDependencies(CUgraph graph, const CUgraphNode* on, const CUgraphEdgeData* edges, size_t count,
                           CUgraphNodeType type, const char* call) {
  if (count > 0 && on == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::set<CUgraphNode> seen;
  for (size_t i = 0; i < count; ++i) {
    if (!IsNode(on[i], call) || !HasNode(*graph, on[i]) || !seen.insert(on[i]).second) return CUDA_ERROR_INVALID_VALUE;
    if (edges == nullptr) continue;
    const CUgraphEdgeData& edge = edges[i];
    const bool from_kernel = on[i]->type() == CU_GRAPH_NODE_TYPE_KERNEL;
    const unsigned char zeros[5] = {};
    if (edge.to_port != 0 || !std::equal(zeros, zeros + 5, edge.reserved)) return CUDA_ERROR_INVALID_VALUE;
    if (edge.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) return CUDA_ERROR_INVALID_VALUE;
    if (edge.from_port != 0 && !from_kernel) return CUDA_ERROR_INVALID_VALUE;
    if (edge.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return CUDA_ERROR_INVALID_VALUE;
    if (edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
        (!from_kernel || type != CU_GRAPH_NODE_TYPE_KERNEL || edge.from_port == 0)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUgraphNode AddNode(CUgraph graph, ActionPointer action, std::vector<CUgraphNode> dependencies) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->owner = graph;
  node->action = std::move(action);
  node->dependencies = std::move(dependencies);
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

std::unique_ptr<CUgraph_st> CopyGraph(const CUgraph_st& graph) {
  auto copy = std::make_unique<CUgraph_st>();
  std::map<CUgraphNode, CUgraphNode> copy_of;
  for (const auto& node : graph.nodes) {
    const CUgraphNode added = AddNode(copy.get(), node->action, {});
    added->priority = node->priority;
    copy_of[node.get()] = added;
    if (node->child == nullptr) continue;
    added->child = CopyGraph(*node->child);
    added->child->parent = added;
  }
  for (const auto& node : graph.nodes) {
    for (const CUgraphNode on : node->dependencies) copy_of[node.get()]->dependencies.push_back(copy_of[on]);
  }
  return copy;
}

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = new CUgraph_st;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const Lock lock(Global());
  if (!IsGraph(graph, "cuGraphDestroy") || graph->parent != nullptr || graph->captures > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* copy, CUgraph graph) {
  const Lock lock(Global());
  if (copy == nullptr || !IsGraph(graph, "cuGraphClone") || HasConditionals(*graph)) return CUDA_ERROR_INVALID_VALUE;
  *copy = CopyGraph(*graph).release();
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const Lock lock(Global());
  if (!IsGraph(graph, "cuGraphGetNodes")) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) found.push_back(node.get());
  return CopyOut(found, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const Lock lock(Global());
  if (!IsGraph(graph, "cuGraphGetRootNodes")) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) found.push_back(node.get());
  }
  return CopyOut(found, nodes, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* on, CUgraphEdgeData* edges, size_t* count) {
  const Lock lock(Global());
  if (!IsNode(node, "cuGraphNodeGetDependencies")) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CopyOut(node->dependencies, on, count);
  for (size_t i = 0; result == CUDA_SUCCESS && on != nullptr && edges != nullptr && i < *count; ++i) edges[i] = {};
  return result;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* edges,
                                         size_t* count) {
  const Lock lock(Global());
  if (!IsNode(node, "cuGraphNodeGetDependentNodes")) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const auto& [from, to] : Edges(*node->owner)) {
    if (from == node) found.push_back(to);
  }
  const CUresult result = CopyOut(found, dependents, count);
  for (size_t i = 0; result == CUDA_SUCCESS && dependents != nullptr && edges != nullptr && i < *count; ++i) {
    edges[i] = {};
  }
  return result;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, size_t count) {
  const Lock lock(Global());
  if (!IsGraph(graph, "cuGraphAddDependencies")) return CUDA_ERROR_INVALID_VALUE;
  if (count > 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (!IsNode(to[i], "cuGraphAddDependencies") || !HasNode(*graph, to[i]) || from[i] == to[i]) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = CheckDependencies(graph, &from[i], edges == nullptr ? nullptr : &edges[i], 1, to[i]->type(),
                                              "cuGraphAddDependencies");
    if (result != CUDA_SUCCESS) return result;
    auto& dependencies = to[i]->dependencies;
    if (std::find(dependencies.begin(), dependencies.end(), from[i]) != dependencies.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    dependencies.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  const Lock lock(Global());
  if (!IsNode(node, "cuGraphDestroyNode") || node->owner->captures > 0) return CUDA_ERROR_INVALID_VALUE;
  CUgraph graph = node->owner;
  for (const auto& other : graph->nodes) {
    auto& on = other->dependencies;
    on.erase(std::remove(on.begin(), on.end(), node), on.end());
  }
  graph->nodes.erase(
      std::find_if(graph->nodes.begin(), graph->nodes.end(), [&](const auto& other) { return other.get() == node; }));
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  const Lock lock(Global());
  if (type == nullptr || !IsNode(node, "cuGraphNodeGetType")) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type();
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  const Lock lock(Global());
  if (graph == nullptr || !IsNode(node, "cuGraphChildGraphNodeGetGraph") || node->child == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *graph = node->child.get();
  return CUDA_SUCCESS;
}

// Graphviz's language: a node for each node, named by its place and its type's number.
CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  const Lock lock(Global());
  if (path == nullptr || !IsGraph(graph, "cuGraphDebugDotPrint")) return CUDA_ERROR_INVALID_VALUE;
  FILE* file = fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  fprintf(file, "digraph emulated {\n");
  for (const auto& node : graph->nodes) {
    fprintf(file, "  node%llu [label=\"type %d\"];\n", static_cast<unsigned long long>(node->id), node->type());
    for (const CUgraphNode on : node->dependencies) {
      fprintf(file, "  node%llu -> node%llu;\n", static_cast<unsigned long long>(on->id),
              static_cast<unsigned long long>(node->id));
    }
  }
  fprintf(file, "}\n");
  return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // extern "C"

}  // namespace emulator
