// Executables of graphs: instantiation, updates, launches.
#include <cuda.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/blocking.h"
#include "driver/capture.h"
#include "driver/conditionals.h"
#include "driver/contexts.h"
#include "driver/graph_actions.h"
#include "driver/graph_launch.h"
#include "driver/graphs.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/streams.h"

namespace emulator {
namespace {

constexpr unsigned long long kKnownFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// A node that is part of a circle, or null. Removes nodes without dependencies until none is left.
CUgraphNode FindInCircle(const CUgraph_st& graph) {
  std::map<CUgraphNode, size_t> waits_for;
  std::map<CUgraphNode, std::vector<CUgraphNode>> dependents;
  std::vector<CUgraphNode> ready;
  for (const auto& node : graph.nodes) {
    waits_for[node.get()] = node->dependencies.size();
    for (const CUgraphNode on : node->dependencies) dependents[on].push_back(node.get());
    if (node->dependencies.empty()) ready.push_back(node.get());
  }
  while (!ready.empty()) {
    const CUgraphNode node = ready.back();
    ready.pop_back();
    waits_for.erase(node);
    for (const CUgraphNode dependent : dependents[node]) {
      if (--waits_for[dependent] == 0) ready.push_back(dependent);
    }
  }
  return waits_for.empty() ? nullptr : waits_for.begin()->first;
}

// What makes the graph, or one below it, impossible to run.
struct Defect {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};
Defect FindDefect(const CUgraph_st& graph) {
  if (const CUgraphNode node = FindInCircle(graph)) {
    Complain("cuGraphInstantiate: the dependencies of node %p form a circle", static_cast<void*>(node));
    return {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node};
  }
  for (const auto& node : graph.nodes) {
    if (node->child != nullptr && node->child->nodes.empty()) {
      // Drivers have been seen to crash here.
      Complain("cuGraphInstantiate: child graph node %p is empty", static_cast<void*>(node.get()));
      return {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node.get()};
    }
    Defect below;
    if (node->child != nullptr) below = FindDefect(*node->child);
    for (const auto& body : node->bodies) {
      if (below.result == CUDA_GRAPH_INSTANTIATE_SUCCESS) below = FindDefect(*body);
    }
    if (below.result != CUDA_GRAPH_INSTANTIATE_SUCCESS) return below;
  }
  return {};
}

std::shared_ptr<ExecutableGraph> Executable(const CUgraph_st& graph) {
  auto executable = std::make_shared<ExecutableGraph>();
  executable->handles = graph.handles;
  std::map<CUgraphNode, size_t> index_of;
  for (const auto& node : graph.nodes) index_of.emplace(node.get(), index_of.size());
  for (const auto& node : graph.nodes) {
    ExecutableNode runs;
    runs.id = node->id;
    runs.action = node->action;
    runs.conditional = node->conditional;
    runs.condition = node->condition;
    for (const CUgraphNode on : node->dependencies) runs.dependencies.push_back(index_of[on]);
    if (node->child != nullptr) runs.child = Executable(*node->child);
    for (const auto& body : node->bodies) runs.bodies.push_back(Executable(*body));
    executable->nodes.push_back(std::move(runs));
  }
  return executable;
}

void IndexNodes(ExecutableGraph* graph, std::unordered_map<uint64_t, ExecutableNode*>* node_of) {
  for (ExecutableNode& node : graph->nodes) {
    node_of->emplace(node.id, &node);
    if (node.child != nullptr) IndexNodes(node.child.get(), node_of);
    for (const auto& body : node.bodies) IndexNodes(body.get(), node_of);
  }
}

void CountNodes(const ExecutableGraph& graph, std::map<int, size_t>* counts) {
  for (const ExecutableNode& node : graph.nodes) {
    ++(*counts)[node.action->type];
    if (node.child != nullptr) CountNodes(*node.child, counts);
    for (const auto& body : node.bodies) CountNodes(*body, counts);
  }
}

CUresult Instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags, Defect* defect) {
  const Lock lock(Global());
  *defect = {CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  if (exec == nullptr || !IsGraph(graph, "cuGraphInstantiate") || (flags & ~kKnownFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    Complain("refused: cuGraphInstantiate for launches by the device");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (graph->parent != nullptr || graph->captures > 0 || graph->only_exec != nullptr) {
    Complain("cuGraphInstantiate: the graph %s", graph->parent != nullptr ? "is part of another"
                                                 : graph->captures > 0    ? "is being captured"
                                                                          : "has conditional nodes and an executable");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (HasUnusedHandle(*graph)) {
    Complain("cuGraphInstantiate: a conditional handle has no conditional node");
    defect->result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  *defect = FindDefect(*graph);
  if (defect->result != CUDA_GRAPH_INSTANTIATE_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  *exec = new CUgraphExec_st;
  (*exec)->flags = flags;
  (*exec)->graph = Executable(*graph);
  (*exec)->order = std::make_shared<LaunchOrder>();
  IndexNodes((*exec)->graph.get(), &(*exec)->node_of);
  if (HasConditionals(*graph)) {
    (*exec)->conditional_source = graph;
    graph->only_exec = *exec;
  }
  std::map<int, size_t> counts;
  CountNodes(*(*exec)->graph, &counts);
  for (const auto& [type, count] : counts) TRACE("cuGraphInstantiate: %zu nodes of type %d", count, type);
  return CUDA_SUCCESS;
}

// The executable's node for a node of the graph that it was made from; null if it has none.
ExecutableNode* NodeIn(CUgraphExec exec, CUgraphNode node, const char* call) {
  if (!IsExecutable(exec, call) || !IsNode(node, call)) return nullptr;
  const auto known = exec->node_of.find(node->id);
  return known == exec->node_of.end() ? nullptr : known->second;
}

CUresult SetAction(CUgraphExec exec, CUgraphNode node, ActionPointer action, const char* call) {
  const Lock lock(Global());
  ExecutableNode* runs = NodeIn(exec, node, call);
  if (runs == nullptr || action == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckUpdate(*runs->action, *action);
  if (result == CUDA_SUCCESS) runs->action = std::move(action);
  return result;
}

// Why a graph cannot take the place of another.
struct Mismatch {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  CUgraphNode node = nullptr;
};

// Nodes are paired in the order in which they were added.
Mismatch FindMismatch(const ExecutableGraph& now, const CUgraph_st& wanted) {
  if (now.nodes.size() != wanted.nodes.size()) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  std::map<CUgraphNode, size_t> index_of;
  for (const auto& node : wanted.nodes) index_of.emplace(node.get(), index_of.size());
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    const ExecutableNode& runs = now.nodes[i];
    const CUgraphNode node = wanted.nodes[i].get();
    if (runs.action->type != node->type()) return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node};
    std::vector<size_t> dependencies;
    for (const CUgraphNode on : node->dependencies) dependencies.push_back(index_of[on]);
    if (dependencies != runs.dependencies) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node};
    if (CheckUpdate(*runs.action, *node->action) != CUDA_SUCCESS) {
      return {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node};
    }
    if (runs.condition != node->condition || runs.bodies.size() != node->bodies.size()) {
      return {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node};
    }
    Mismatch below;
    if (runs.child != nullptr) below = FindMismatch(*runs.child, *node->child);
    for (size_t j = 0; j < runs.bodies.size() && below.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; ++j) {
      below = FindMismatch(*runs.bodies[j], *node->bodies[j]);
    }
    if (below.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return below;
  }
  return {};
}

// Requires that FindMismatch has found none.
void TakeActions(ExecutableGraph* now, const CUgraph_st& wanted) {
  for (size_t i = 0; i < now->nodes.size(); ++i) {
    now->nodes[i].action = wanted.nodes[i]->action;
    if (now->nodes[i].child != nullptr) TakeActions(now->nodes[i].child.get(), *wanted.nodes[i]->child);
    for (size_t j = 0; j < now->nodes[i].bodies.size(); ++j) {
      TakeActions(now->nodes[i].bodies[j].get(), *wanted.nodes[i]->bodies[j]);
    }
  }
}

}  // namespace

std::unique_ptr<CUgraph_st> GraphOf(const ExecutableGraph& executable) {
  auto graph = std::make_unique<CUgraph_st>();
  for (const ExecutableNode& runs : executable.nodes) {
    const CUgraphNode node =
        AddNode(graph.get(), runs.enabled ? runs.action : PlainAction(CU_GRAPH_NODE_TYPE_EMPTY, nullptr), {});
    if (runs.child == nullptr) continue;
    node->child = GraphOf(*runs.child);
    node->child->parent = node;
  }
  for (size_t i = 0; i < executable.nodes.size(); ++i) {
    for (const size_t on : executable.nodes[i].dependencies) {
      graph->nodes[i]->dependencies.push_back(graph->nodes[on].get());
    }
  }
  return graph;
}

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  Defect defect;
  const CUresult result = Instantiate(exec, graph, flags, &defect);
  if (result == CUDA_SUCCESS) MayWaitForPeersOf(CurrentDevice(), "cuGraphInstantiate");
  return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Defect defect;
  const CUresult result = Instantiate(exec, graph, parameters->flags, &defect);
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : defect.result;
  parameters->hErrNode_out = defect.node;
  if (result == CUDA_SUCCESS) MayWaitForPeersOf(CurrentDevice(), "cuGraphInstantiate");
  return result;
}

// Launches that are under way keep what they run.
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const Lock lock(Global());
  if (!IsExecutable(exec, "cuGraphExecDestroy")) return CUDA_ERROR_INVALID_VALUE;
  delete exec;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  const Lock lock(Global());
  if (flags == nullptr || !IsExecutable(exec, "cuGraphExecGetFlags")) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  const Lock lock(Global());
  return IsExecutable(exec, "cuGraphUpload") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  CUstream stream = nullptr;
  const CUresult resolved = ResolveFor("cuGraphLaunch", handle, &stream);
  if (resolved != CUDA_SUCCESS) return resolved;
  AwaitRoom(stream);
  const Lock lock(Global());
  if (!IsExecutable(exec, "cuGraphLaunch")) return CUDA_ERROR_INVALID_VALUE;
  TRACE("cuGraphLaunch of executable %p in stream %llu", static_cast<void*>(exec), stream->id);
  if (stream->capture != nullptr) return CaptureChildGraph(stream, *exec->graph);
  const std::shared_ptr<ExecutableGraph> runs = CopyOf(*exec->graph);
  const std::shared_ptr<LaunchOrder> order = exec->order;
  const uint64_t turn = order->given;
  constexpr uint64_t kOrderOfNodes = 2;  // a salt of its own
  const CUresult result = EnqueueNow(handle, CU_GRAPH_NODE_TYPE_GRAPH, [runs, order, turn] {
    order->Await(turn);
    BeginConditionals(*runs);
    RunGraph(*runs, Decision(kOrderOfNodes));
    EndConditionals(*runs);
    order->Done(turn);
  });
  if (result == CUDA_SUCCESS) ++order->given;
  return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(exec, node, KernelAction(*p), "cuGraphExecKernelNodeSetParams");
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
  if (p == nullptr || p->WidthInBytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(exec, node, CopyAction(*p), "cuGraphExecMemcpyNodeSetParams");
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p,
                                        CUcontext) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(exec, node, FillAction(*p), "cuGraphExecMemsetNodeSetParams");
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(exec, node, HostAction(*p), "cuGraphExecHostNodeSetParams");
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(exec, node, MemoryOperationsAction(*p), "cuGraphExecBatchMemOpNodeSetParams");
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  const Lock lock(Global());
  constexpr const char* kCall = "cuGraphExecChildGraphNodeSetParams";
  ExecutableNode* runs = NodeIn(exec, node, kCall);
  if (runs == nullptr || !IsGraph(child, kCall) || runs->child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Mismatch mismatch = FindMismatch(*runs->child, *child);
  if (mismatch.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    Complain("%s: the graph does not match the node's (CUgraphExecUpdateResult %d)", kCall, mismatch.result);
    return CUDA_ERROR_INVALID_VALUE;
  }
  TakeActions(runs->child.get(), *child);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return SetAction(exec, node, ActionOf(*p), "cuGraphExecNodeSetParams");
  }
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  const Lock lock(Global());
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  if (!IsExecutable(exec, "cuGraphExecUpdate") || !IsGraph(graph, "cuGraphExecUpdate")) return CUDA_ERROR_INVALID_VALUE;
  if (graph->parent != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Mismatch mismatch = FindMismatch(*exec->graph, *graph);
  info->result = mismatch.result;
  info->errorNode = mismatch.node;
  if (mismatch.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  TakeActions(exec->graph.get(), *graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  const Lock lock(Global());
  ExecutableNode* runs = NodeIn(exec, node, "cuGraphNodeSetEnabled");
  if (runs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeType type = runs->action->type;
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMSET && type != CU_GRAPH_NODE_TYPE_MEMCPY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  runs->enabled = enabled != 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  const Lock lock(Global());
  const ExecutableNode* runs = NodeIn(exec, node, "cuGraphNodeGetEnabled");
  if (runs == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *enabled = runs->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice) { return CUDA_SUCCESS; }  // graphs of the emulator own no memory

}  // extern "C"

}  // namespace emulator
