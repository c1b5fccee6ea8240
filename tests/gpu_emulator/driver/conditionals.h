// Conditional handles: the values by which conditional nodes decide.
#pragma once

#include <cuda.h>

#include "driver/graph_objects.h"

namespace emulator {

// What a kernel's cudaGraphSetConditional does. Ends the process if the handle is none of a graph that is running.
void SetConditional(CUgraphConditionalHandle handle, unsigned value);

unsigned ConditionalValue(const Conditional& conditional);

// Gives the handles of a launch that starts their default values. A handle without a default has any value, as on a
// GPU.
void BeginConditionals(const ExecutableGraph& graph);
void EndConditionals(const ExecutableGraph& graph);

// Gives the node the handle, if that is of the node's graph or of a graph above it, of this context, and of no other
// node; else returns an error.
CUresult TakeHandle(CUgraphConditionalHandle handle, CUcontext context, CUgraphNode node);

// True if the graph or one below it has a handle that no node has taken.
bool HasUnusedHandle(const CUgraph_st& graph);

}  // namespace emulator
