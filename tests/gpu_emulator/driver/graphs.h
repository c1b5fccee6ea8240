// Graphs and their nodes, which calls and captures add.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "driver/graph_objects.h"

namespace emulator {

// The array that the driver's calls take as a vector.
std::vector<CUgraphNode> List(const CUgraphNode* nodes, size_t count);

// Ends the process with a message if the handle is that of a graph, node or executable that was destroyed. False if it
// is null.
bool IsGraph(CUgraph graph, const char* call);
bool IsNode(CUgraphNode node, const char* call);
bool IsExecutable(CUgraphExec exec, const char* call);

// True if nodes of `type` may be part of a conditional node's body.
bool MayBeConditional(CUgraphNodeType type);

// True if the graph is a conditional node's body, or below one.
bool IsInConditionalBody(CUgraph graph);

// A node of `type` that `graph` or a graph below it has and that may not be in a conditional body; null without one.
CUgraphNode FindUnconditional(const CUgraph_st& graph);
bool HasConditionals(const CUgraph_st& graph);

// CUDA_SUCCESS if a node with these dependencies can be added to the graph.
CUresult CheckDependencies(CUgraph graph, const CUgraphNode* on, const CUgraphEdgeData* edges, size_t count,
                           CUgraphNodeType type, const char* call);

// Adds a node. The dependencies and the type have been checked.
CUgraphNode AddNode(CUgraph graph, ActionPointer action, std::vector<CUgraphNode> dependencies);

// A graph of its own with the same nodes. The graph has no conditional nodes.
std::unique_ptr<CUgraph_st> CopyGraph(const CUgraph_st& graph);
std::unique_ptr<CUgraph_st> GraphOf(const ExecutableGraph& executable);

}  // namespace emulator
