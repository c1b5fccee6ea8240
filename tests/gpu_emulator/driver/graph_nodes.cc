// The calls that add nodes to graphs.
#include <cuda.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "driver/conditionals.h"
#include "driver/graph_actions.h"
#include "driver/graphs.h"
#include "driver/log.h"
#include "driver/objects.h"

namespace emulator {
namespace {

// Where a call adds its node.
struct Spot {
  CUgraph graph;
  const CUgraphNode* on;
  const CUgraphEdgeData* edges;
  size_t count;
};

// CUDA_SUCCESS if a node of `type` may be added there. What a conditional node's body may not hold is
// CUDA_ERROR_NOT_SUPPORTED.
CUresult CheckSpot(const Spot& spot, CUgraphNodeType type, const char* call) {
  if (!IsGraph(spot.graph, call)) return CUDA_ERROR_INVALID_VALUE;
  if (!MayBeConditional(type) && IsInConditionalBody(spot.graph)) {
    Complain("%s: the body of a conditional node cannot hold a node of type %d", call, static_cast<int>(type));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CheckDependencies(spot.graph, spot.on, spot.edges, spot.count, type, call);
}

CUresult Add(CUgraphNode* node, const Spot& spot, ActionPointer action, const char* call) {
  if (node == nullptr || action == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  const CUresult result = CheckSpot(spot, action->type, call);
  if (result != CUDA_SUCCESS) return result;
  *node = AddNode(spot.graph, std::move(action), List(spot.on, spot.count));
  return CUDA_SUCCESS;
}

CUresult AddChild(CUgraphNode* node, const Spot& spot, CUgraph child, bool moved, const char* call) {
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  const CUresult result = CheckSpot(spot, CU_GRAPH_NODE_TYPE_GRAPH, call);
  if (result != CUDA_SUCCESS) return result;
  if (!IsGraph(child, call) || child->captures > 0) return CUDA_ERROR_INVALID_VALUE;
  if (HasConditionals(*child) || !child->handles.empty()) {
    Complain("%s: a child graph cannot have conditional nodes", call);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (IsInConditionalBody(spot.graph)) {
    if (const CUgraphNode refused = FindUnconditional(*child)) {
      Complain("%s: the body of a conditional node cannot hold a node of type %d, which the child graph has", call,
               static_cast<int>(refused->type()));
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  // A graph that has an owner cannot get another, and none can be a part of itself.
  if (moved && child->parent != nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraph at = spot.graph; at != nullptr; at = at->parent == nullptr ? nullptr : at->parent->owner) {
    if (at == child) return CUDA_ERROR_INVALID_VALUE;
  }
  std::unique_ptr<CUgraph_st> owned = moved ? std::unique_ptr<CUgraph_st>(child) : CopyGraph(*child);
  *node = AddNode(spot.graph, PlainAction(CU_GRAPH_NODE_TYPE_GRAPH, nullptr), List(spot.on, spot.count));
  owned->parent = *node;
  (*node)->child = std::move(owned);
  return CUDA_SUCCESS;
}

bool IsAllowedSize(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size > 0;
    default:
      return false;
  }
}

CUresult AddConditional(CUgraphNode* node, const Spot& spot, CUDA_CONDITIONAL_NODE_PARAMS* p, const char* call) {
  if (node == nullptr || !IsAllowedSize(p->type, p->size)) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  CUresult result = CheckSpot(spot, CU_GRAPH_NODE_TYPE_CONDITIONAL, call);
  if (result != CUDA_SUCCESS) return result;
  for (CUgraphNode at = spot.graph->parent; at != nullptr; at = at->owner->parent) {
    if (at->type() == CU_GRAPH_NODE_TYPE_GRAPH) {
      Complain("%s: a child graph cannot have conditional nodes", call);
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const CUgraphNode added =
      AddNode(spot.graph, PlainAction(CU_GRAPH_NODE_TYPE_CONDITIONAL, nullptr), List(spot.on, spot.count));
  result = TakeHandle(p->handle, p->ctx, added);
  if (result != CUDA_SUCCESS) {
    Complain("%s: conditional handle %llu is not of this graph and context, or another node has it", call,
             static_cast<unsigned long long>(p->handle));
    spot.graph->nodes.pop_back();
    return result;
  }
  added->condition = p->type;
  for (unsigned i = 0; i < p->size; ++i) {
    added->bodies.push_back(std::make_unique<CUgraph_st>());
    added->bodies.back()->parent = added;
    added->body_handles.push_back(added->bodies.back().get());
  }
  p->phGraph_out = added->body_handles.data();
  *node = added;
  return CUDA_SUCCESS;
}

}  // namespace

ActionPointer ActionOf(const CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS_v3& kernel = p.kernel;
      CUDA_KERNEL_NODE_PARAMS plain{};
      plain.func = kernel.func != nullptr ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern);
      plain.gridDimX = kernel.gridDimX;
      plain.gridDimY = kernel.gridDimY;
      plain.gridDimZ = kernel.gridDimZ;
      plain.blockDimX = kernel.blockDimX;
      plain.blockDimY = kernel.blockDimY;
      plain.blockDimZ = kernel.blockDimZ;
      plain.sharedMemBytes = kernel.sharedMemBytes;
      plain.kernelParams = kernel.kernelParams;
      plain.extra = kernel.extra;
      return KernelAction(plain);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CopyAction(p.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return FillAction(
          {p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height});
    case CU_GRAPH_NODE_TYPE_HOST:
      return HostAction({p.host.fn, p.host.userData});
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return PlainAction(CU_GRAPH_NODE_TYPE_EMPTY, nullptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MemoryOperationsAction({p.memOp.ctx, p.memOp.count, p.memOp.paramArray, p.memOp.flags});
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return RecordAction(p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return WaitAction(p.eventWait.event);
    default:
      Complain("refused: graph nodes of type %d have no behaviour in the emulated driver", static_cast<int>(p.type));
      return nullptr;
  }
}

extern "C" {

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count) {
  return Add(node, {graph, on, nullptr, count}, PlainAction(CU_GRAPH_NODE_TYPE_EMPTY, nullptr), "cuGraphAddEmptyNode");
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(node, {graph, on, nullptr, count}, KernelAction(*p), "cuGraphAddKernelNode");
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                              const CUDA_MEMCPY3D* p, CUcontext) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(node, {graph, on, nullptr, count}, CopyAction(*p), "cuGraphAddMemcpyNode");
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(node, {graph, on, nullptr, count}, FillAction(*p), "cuGraphAddMemsetNode");
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                            const CUDA_HOST_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(node, {graph, on, nullptr, count}, HostAction(*p), "cuGraphAddHostNode");
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(node, {graph, on, nullptr, count}, MemoryOperationsAction(*p), "cuGraphAddBatchMemOpNode");
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                                   CUevent event) {
  return Add(node, {graph, on, nullptr, count}, RecordAction(event), "cuGraphAddEventRecordNode");
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count, CUevent event) {
  return Add(node, {graph, on, nullptr, count}, WaitAction(event), "cuGraphAddEventWaitNode");
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, size_t count,
                                  CUgraph child) {
  return AddChild(node, {graph, on, nullptr, count}, child, false, "cuGraphAddChildGraphNode");
}
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* on, const CUgraphEdgeData* edges,
                           size_t count, CUgraphNodeParams* p) {
  if (p == nullptr || p->reserved2 != 0 || std::any_of(p->reserved0, p->reserved0 + 3, [](int i) { return i != 0; })) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Spot spot{graph, on, edges, count};
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return AddChild(node, spot, p->graph.graph, p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
                      "cuGraphAddNode");
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return AddConditional(node, spot, &p->conditional, "cuGraphAddNode");
    default:
      return Add(node, spot, ActionOf(*p), "cuGraphAddNode");
  }
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  const Lock lock(Global());
  if (value == nullptr || !IsNode(node, "cuGraphKernelNodeSetAttribute")) return CUDA_ERROR_INVALID_VALUE;
  if (node->type() != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    Complain("refused: cuGraphKernelNodeSetAttribute: attribute %d", static_cast<int>(attribute));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  node->priority = value->priority;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* value) {
  const Lock lock(Global());
  if (value == nullptr || !IsNode(node, "cuGraphKernelNodeGetAttribute")) return CUDA_ERROR_INVALID_VALUE;
  if (node->type() != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    Complain("refused: cuGraphKernelNodeGetAttribute: attribute %d", static_cast<int>(attribute));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  value->priority = node->priority;
  return CUDA_SUCCESS;
}

// The parameters of a node in the graph; executables keep theirs.
static CUresult SetAction(CUgraphNode node, CUgraphNodeType type, ActionPointer action, const char* call) {
  const Lock lock(Global());
  if (action == nullptr || !IsNode(node, call) || node->type() != type) return CUDA_ERROR_INVALID_VALUE;
  node->action = std::move(action);
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(node, CU_GRAPH_NODE_TYPE_KERNEL, KernelAction(*p), "cuGraphKernelNodeSetParams");
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(node, CU_GRAPH_NODE_TYPE_MEMCPY, CopyAction(*p), "cuGraphMemcpyNodeSetParams");
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetAction(node, CU_GRAPH_NODE_TYPE_MEMSET, FillAction(*p), "cuGraphMemsetNodeSetParams");
}

}  // extern "C"

}  // namespace emulator
