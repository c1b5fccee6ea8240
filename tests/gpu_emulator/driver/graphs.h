// Nodes of graphs, which captures add as well.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace emulator {

CUgraphNode AddNode(CUgraph graph, CUgraphNodeType type, std::vector<CUgraphNode> dependencies,
                    std::function<void()> run);

// The array that the driver's calls take as a vector.
std::vector<CUgraphNode> List(const CUgraphNode* nodes, size_t count);

}  // namespace emulator
