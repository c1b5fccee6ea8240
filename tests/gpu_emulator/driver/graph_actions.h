// What nodes do, made from the parameters of the driver's calls. Each function reads its parameters now, as the driver
// does; a null result stands for CUDA_ERROR_INVALID_VALUE.
#pragma once

#include <cuda.h>

#include <functional>

#include "driver/graph_objects.h"

namespace emulator {

// Of any kind: a captured action, whose parameters nobody asks for later.
ActionPointer PlainAction(CUgraphNodeType type, std::function<void()> run);

ActionPointer KernelAction(const CUDA_KERNEL_NODE_PARAMS& parameters);
ActionPointer CopyAction(const CUDA_MEMCPY3D& parameters);
ActionPointer FillAction(const CUDA_MEMSET_NODE_PARAMS& parameters);
ActionPointer HostAction(const CUDA_HOST_NODE_PARAMS& parameters);
ActionPointer MemoryOperationsAction(const CUDA_BATCH_MEM_OP_NODE_PARAMS& parameters);
ActionPointer RecordAction(CUevent event);
ActionPointer WaitAction(CUevent event);

// Of the kind that the parameters name; not for child graphs and conditional nodes.
ActionPointer ActionOf(const CUgraphNodeParams& parameters);

// CUDA_SUCCESS if an executable's node that does `from` may do `to` instead.
CUresult CheckUpdate(const Action& from, const Action& to);

}  // namespace emulator
