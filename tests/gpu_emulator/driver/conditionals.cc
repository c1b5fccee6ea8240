#include "driver/conditionals.h"

#include <cuda.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "driver/graphs.h"
#include "driver/log.h"
#include "driver/objects.h"

namespace emulator {
namespace {

// Requires Global().
std::map<CUgraphConditionalHandle, Conditional*>& Conditionals() {
  static auto* conditionals = new std::map<CUgraphConditionalHandle, Conditional*>;
  return *conditionals;
}

template <typename Visit>
void VisitHandles(const ExecutableGraph& graph, const Visit& visit) {
  for (const ConditionalPointer& conditional : graph.handles) visit(conditional.get());
  for (const ExecutableNode& node : graph.nodes) {
    if (node.child != nullptr) VisitHandles(*node.child, visit);
    for (const auto& body : node.bodies) VisitHandles(*body, visit);
  }
}

}  // namespace

Conditional::Conditional() {
  const Lock lock(Global());
  handle = NextId();
  Conditionals()[handle] = this;
}
Conditional::~Conditional() {
  const Lock lock(Global());
  Conditionals().erase(handle);
}

void SetConditional(CUgraphConditionalHandle handle, unsigned value) {
  const Lock lock(Global());
  const auto known = Conditionals().find(handle);
  if (known == Conditionals().end() || known->second->launches == 0) {
    Complain("cudaGraphSetConditional: handle %llu is of no graph that is running",
             static_cast<unsigned long long>(handle));
    abort();
  }
  known->second->value = value;
}

unsigned ConditionalValue(const Conditional& conditional) {
  const Lock lock(Global());
  return conditional.value;
}

void BeginConditionals(const ExecutableGraph& graph) {
  const Lock lock(Global());
  VisitHandles(graph, [](Conditional* conditional) {
    ++conditional->launches;
    // Any value but zero, which would hide that nothing has set it.
    conditional->value = conditional->has_default ? conditional->default_value : 0x5eed0001u;
  });
}

void EndConditionals(const ExecutableGraph& graph) {
  const Lock lock(Global());
  VisitHandles(graph, [](Conditional* conditional) { --conditional->launches; });
}

CUresult TakeHandle(CUgraphConditionalHandle handle, CUcontext context, CUgraphNode node) {
  const auto known = Conditionals().find(handle);
  if (known == Conditionals().end() || known->second->node != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (context != known->second->context) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraph at = node->owner; at != nullptr; at = at->parent == nullptr ? nullptr : at->parent->owner) {
    for (const ConditionalPointer& conditional : at->handles) {
      if (conditional->handle != handle) continue;
      conditional->node = node;
      node->conditional = conditional;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

bool HasUnusedHandle(const CUgraph_st& graph) {
  for (const ConditionalPointer& conditional : graph.handles) {
    if (conditional->node == nullptr) return true;
  }
  for (const auto& node : graph.nodes) {
    if (node->child != nullptr && HasUnusedHandle(*node->child)) return true;
    for (const auto& body : node->bodies) {
      if (HasUnusedHandle(*body)) return true;
    }
  }
  return false;
}

extern "C" {

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                        unsigned default_value, unsigned flags) {
  const Lock lock(Global());
  if (handle == nullptr || !IsGraph(graph, "cuGraphConditionalHandleCreate")) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto conditional = std::make_shared<Conditional>();
  conditional->context = context;
  conditional->has_default = flags != 0;
  conditional->default_value = default_value;
  *handle = conditional->handle;
  graph->handles.push_back(std::move(conditional));
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
