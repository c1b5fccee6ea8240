// Graphs, their nodes and executables.
#include "driver/graphs.h"

#include <cuda.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "driver/launches.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

CUgraphNode AddNode(CUgraph graph, CUgraphNodeType type, std::vector<CUgraphNode> dependencies,
                    std::function<void()> run) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->type = type;
  node->dependencies = std::move(dependencies);
  node->run = std::move(run);
  node->owner = graph;
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned) { return *graph = new CUgraph_st, CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
}  // extern "C"

std::vector<CUgraphNode> List(const CUgraphNode* nodes, size_t count) { return {nodes, nodes + count}; }
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count) {
  return *node = AddNode(graph, CU_GRAPH_NODE_TYPE_EMPTY, List(on, count), [] {}), CUDA_SUCCESS;
}

extern "C" {
static std::function<void()> KernelNodeWork(const CUDA_KERNEL_NODE_PARAMS* p) {
  return KernelWork(p->func, {p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ},
                    p->sharedMemBytes, p->kernelParams, p->extra);
}
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* parameters) {
  *node = AddNode(graph, CU_GRAPH_NODE_TYPE_KERNEL, List(on, count), KernelNodeWork(parameters));
  return CUDA_SUCCESS;
}
static std::function<void()> CopyNodeWork(const CUDA_MEMCPY3D* p) {
  const auto to = p->dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(p->dstHost) : p->dstDevice;
  const auto from = p->srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(p->srcHost) : p->srcDevice;
  const size_t bytes = p->WidthInBytes * (p->Height != 0 ? p->Height : 1) * (p->Depth != 0 ? p->Depth : 1);
  return [=] { memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); };
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                              const CUDA_MEMCPY3D* parameters, CUcontext) {
  return *node = AddNode(graph, CU_GRAPH_NODE_TYPE_MEMCPY, List(on, count), CopyNodeWork(parameters)), CUDA_SUCCESS;
}
static std::function<void()> FillNodeWork(const CUDA_MEMSET_NODE_PARAMS* p) {
  const CUDA_MEMSET_NODE_PARAMS q = *p;
  return [=] {
    for (size_t row = 0; row < (q.height != 0 ? q.height : 1); ++row) {
      const CUdeviceptr at = q.dst + row * q.pitch;
      if (q.elementSize == 1) Fill<uint8_t>(at, static_cast<uint8_t>(q.value), q.width);
      if (q.elementSize == 2) Fill<uint16_t>(at, static_cast<uint16_t>(q.value), q.width);
      if (q.elementSize == 4) Fill<uint32_t>(at, q.value, q.width);
    }
  };
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  return *node = AddNode(graph, CU_GRAPH_NODE_TYPE_MEMSET, List(on, count), FillNodeWork(parameters)), CUDA_SUCCESS;
}
// The work of a graph in order of creation. A launch keeps it: what is set on the executable later is for later ones.
static void Flatten(CUgraph graph, std::vector<std::function<void()>>* work) {
  for (const auto& node : graph->nodes) {
    if (node->child != nullptr)
      Flatten(node->child, work);
    else
      work->push_back(node->run);
  }
}
static CUgraph CloneGraph(CUgraph graph, std::map<CUgraphNode, CUgraphNode>* of) {
  CUgraph copy = new CUgraph_st;
  for (const auto& node : graph->nodes) {
    auto clone = std::make_unique<CUgraphNode_st>();
    clone->type = node->type;
    clone->run = node->run;
    clone->owner = copy;
    for (CUgraphNode on : node->dependencies) clone->dependencies.push_back((*of)[on]);
    if (node->child != nullptr) clone->child = CloneGraph(node->child, of);
    (*of)[node.get()] = clone.get();
    copy->nodes.push_back(std::move(clone));
  }
  return copy;
}
static std::map<CUgraphExec, std::map<CUgraphNode, CUgraphNode>>& ExecNodes() {
  static auto* map = new std::map<CUgraphExec, std::map<CUgraphNode, CUgraphNode>>;
  return *map;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                                  CUgraph child) {
  *node = AddNode(graph, CU_GRAPH_NODE_TYPE_GRAPH, List(on, count), nullptr);
  std::map<CUgraphNode, CUgraphNode> ignored;
  (*node)->child = CloneGraph(child, &ignored);
  return CUDA_SUCCESS;
}
CUresult cuGraphClone(CUgraph* copy, CUgraph graph) {
  std::map<CUgraphNode, CUgraphNode> ignored;
  return *copy = CloneGraph(graph, &ignored), CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  const Lock lock(Global());
  *exec = new CUgraphExec_st;
  (*exec)->graph = CloneGraph(graph, &ExecNodes()[*exec]);
  Log("cuGraphInstantiate: %zu nodes", graph->nodes.size());
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  TRACE("cuGraphLaunch");
  std::vector<std::function<void()>> work;
  Flatten(exec->graph, &work);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_GRAPH, [work] {
    for (const auto& step : work) step();
  });
}
static CUgraphNode InExec(CUgraphExec exec, CUgraphNode node) {
  const Lock lock(Global());
  const CUgraphNode found = ExecNodes()[exec][node];
  if (found != nullptr) return found;
  Log("a node that the executable graph does not have");
  static auto* nothing = new CUgraphNode_st;
  return nothing;
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return InExec(exec, node)->run = KernelNodeWork(parameters), CUDA_SUCCESS;
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* parameters,
                                        CUcontext) {
  return InExec(exec, node)->run = CopyNodeWork(parameters), CUDA_SUCCESS;
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters,
                                        CUcontext) {
  return InExec(exec, node)->run = FillNodeWork(parameters), CUDA_SUCCESS;
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  std::map<CUgraphNode, CUgraphNode> ignored;
  return InExec(exec, node)->child = CloneGraph(child, &ignored), CUDA_SUCCESS;
}
static CUresult FillNode(CUgraphNode node, CUgraphNodeParams* p) {
  node->type = p->type;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = p->kernel;
      CUfunction function = k.func != nullptr ? k.func : reinterpret_cast<CUfunction>(k.kern);
      node->run = KernelWork(function, {k.gridDimX, k.gridDimY, k.gridDimZ}, {k.blockDimX, k.blockDimY, k.blockDimZ},
                             k.sharedMemBytes, k.kernelParams, k.extra);
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      node->run = CopyNodeWork(&p->memcpy.copyParams);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& m = p->memset;
      const CUDA_MEMSET_NODE_PARAMS plain{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
      node->run = FillNodeWork(&plain);
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      // Moved graphs keep their nodes, which are then set in executables by the handles that their owner has.
      std::map<CUgraphNode, CUgraphNode> ignored;
      const bool moved = p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
      node->child = moved ? p->graph.graph : CloneGraph(p->graph.graph, &ignored);
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      node->run = [] {};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST: {
      const auto host = p->host;
      node->run = [host] { host.fn(host.userData); };
      return CUDA_SUCCESS;
    }
    default:
      Log("UNIMPLEMENTED graph node type %d", p->type);
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, const CUgraphEdgeData*, size_t count,
                        CUgraphNodeParams* parameters) {
  CUgraphNode_st filled;
  const CUresult result = FillNode(&filled, parameters);
  if (result != CUDA_SUCCESS) return result;
  *node = AddNode(graph, filled.type, List(on, count), filled.run);
  (*node)->child = filled.child;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters) {
  return FillNode(InExec(exec, node), parameters);
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  size_t found = 0;
  for (const auto& node : graph->nodes) {
    if (!node->dependencies.empty()) continue;
    if (nodes != nullptr && found < *count) nodes[found] = node.get();
    ++found;
  }
  *count = found;
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* on, CUgraphEdgeData*, size_t* count) {
  if (on != nullptr)
    for (size_t i = 0; i < *count && i < node->dependencies.size(); ++i) on[i] = node->dependencies[i];
  *count = node->dependencies.size();
  return CUDA_SUCCESS;
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) { return *graph = node->child, CUDA_SUCCESS; }
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) { return *type = node->type, CUDA_SUCCESS; }
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count && i < graph->nodes.size(); ++i) nodes[i] = graph->nodes[i].get();
  }
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}
CUresult cuGraphDebugDotPrint(CUgraph, const char*, unsigned) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace emulator
