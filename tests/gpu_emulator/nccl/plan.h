// What a group of NCCL's calls does when its stream runs it: messages between ranks, and reductions of what has come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nccl/communicator.h"
#include "nccl/windows.h"

namespace emulator::nccl {

enum class Call : uint32_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSend,
  kReceive,
  kPut,
  kWait
};

struct Operation {
  Call call = Call::kAllReduce;
  const char* from = nullptr;
  char* to = nullptr;
  uint64_t count = 0;  // as the call gives it
  int type = 0;
  int reduction = 0;  // of calls that reduce
  int peer = 0;       // root of a broadcast or reduction, the other end of all others

  // Of a put, or a signal alone, whose window is null; and of a wait for `count` signals.
  const Window* window = nullptr;
  uint64_t offset = 0;
  Signal signal = {};
};

// "ncclAllReduce of 5 elements of type 7".
std::string Describe(const Operation& operation);

struct Plan {
  Communicator* communicator = nullptr;
  uint64_t ticket = 0;  // 0: in a graph, which may repeat it
  std::vector<Operation> operations;
};

// For the thread of a stream. Returns when all messages have come and gone, or the GPU or the communicator has failed.
// Ends the process if a peer's message is one of another operation, or nothing moves for GPU_EMULATOR_NCCL_TIMEOUT
// seconds (60): the real library would wait for ever.
void Run(const Plan& plan);

}  // namespace emulator::nccl
