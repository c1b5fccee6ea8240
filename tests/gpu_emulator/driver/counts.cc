#include "driver/counts.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace emulator {
namespace {

struct Total {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::map<std::pair<unsigned long long, CUgraphNodeType>, Total>& Totals() {
  static auto* totals = new std::map<std::pair<unsigned long long, CUgraphNodeType>, Total>;
  return *totals;
}

const char* NameOf(CUgraphNodeType kind) {
  switch (kind) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "memcpy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "memset";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "host function";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "graph";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "event wait";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "event record";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "memory operation";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "free";
    default:
      return "other";
  }
}

void WriteAtExit() { gpu_emulator_write_counts(getenv("GPU_EMULATOR_COUNTS")); }

}  // namespace

void Count(unsigned long long stream, CUgraphNodeType kind, uint64_t operations, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(Mutex());
  static const bool at_exit = getenv("GPU_EMULATOR_COUNTS") != nullptr && atexit(WriteAtExit) == 0;
  static_cast<void>(at_exit);
  Total& total = Totals()[{stream, kind}];
  total.operations += operations;
  total.bytes += bytes;
}

}  // namespace emulator

extern "C" int gpu_emulator_write_counts(const char* path) {
  FILE* file = path == nullptr ? nullptr : fopen(path, "a");
  if (file == nullptr) return -1;
  const std::lock_guard<std::mutex> lock(emulator::Mutex());
  for (const auto& [key, total] : emulator::Totals()) {
    fprintf(file, "{\"pid\": %d, \"stream\": %llu, \"kind\": \"%s\", \"operations\": %lu, \"bytes\": %lu}\n", getpid(),
            key.first, emulator::NameOf(key.second), total.operations, total.bytes);
  }
  return fclose(file);
}
