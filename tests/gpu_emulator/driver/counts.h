// How many operations of which kind each stream has run, and how many bytes they copied.
//
// GPU_EMULATOR_COUNTS names a file to which the process adds its counts at exit, one JSON object a line:
// {"pid": 1, "stream": 3, "kind": "memcpy", "operations": 12, "bytes": 4096}. Stream 0 is the null stream. A launch of
// a graph counts as "graph", and what its nodes do counts as well.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace emulator {

void Count(unsigned long long stream, CUgraphNodeType kind, uint64_t operations, uint64_t bytes);

}  // namespace emulator

// Writes the counts so far to a file, as at exit. For tests.
extern "C" int gpu_emulator_write_counts(const char* path);
