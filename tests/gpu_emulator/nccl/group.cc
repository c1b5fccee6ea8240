#include "nccl/group.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "driver/named_kernels.h"
#include "nccl/nccl_numbers.h"

namespace emulator::nccl {
namespace {

struct Pending {
  Communicator* communicator;
  CUstream stream;
  std::vector<Operation> operations;
};

struct Group {
  int depth = 0;
  std::vector<Pending> pending;  // one for each communicator
  std::vector<std::function<void()>> makes;
};

Group& OfThread() {
  thread_local Group group;
  return group;
}

// Bytes of the buffer that the operation writes, or reads.
uint64_t Bytes(const Operation& operation) { return operation.count * BytesOf(operation.type); }

// The result of transfers whose buffers overlap is undefined.
void CheckOverlaps(const std::vector<Operation>& operations) {
  for (const Operation& in : operations) {
    if (in.call != Call::kReceive) continue;
    for (const Operation& other : operations) {
      if (&other == &in || (other.call != Call::kSend && other.call != Call::kReceive)) continue;
      const char* const begin = other.call == Call::kSend ? other.from : other.to;
      const bool apart = begin + Bytes(other) <= in.to || in.to + Bytes(in) <= begin;
      Demand(apart || Bytes(in) == 0 || Bytes(other) == 0,
             Describe(in) + " writes what " + Describe(other) + " of its group uses");
    }
  }
}

// One thread may call for several GPUs in a group; NCCL takes the context of each. A stream is of its communicator's
// GPU.
void CheckStream(const Pending& pending) {
  CUdevice device = 0;
  Demand(cuCtxGetDevice(&device) == CUDA_SUCCESS && device == pending.communicator->device(),
         Describe(pending.operations[0]) + " without the current context of its communicator's GPU");
  CUdevice of_stream = 0;
  Demand(cuStreamGetDevice(pending.stream, &of_stream) == CUDA_SUCCESS && of_stream == device,
         Describe(pending.operations[0]) + " on a stream of another GPU");
}

int Launch(Pending pending) {
  CheckStream(pending);
  CheckOverlaps(pending.operations);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (cuStreamIsCapturing(pending.stream, &capture) != CUDA_SUCCESS) return kUnhandledCudaError;
  const bool captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  // A graph may run a plan again, so it is never freed. Others are freed when they have run.
  auto plan = std::make_unique<Plan>();
  plan->communicator = pending.communicator;
  plan->ticket = captured ? 0 : pending.communicator->TakeTicket();
  plan->operations = std::move(pending.operations);
  Plan* const kept = plan.get();
  const auto run = [](const void* parameters) {
    Plan* const of_launch = *static_cast<Plan* const*>(parameters);
    Run(*of_launch);
    if (of_launch->ticket != 0) delete of_launch;
  };
  if (gpu_emulator_launch(pending.stream, "nccl", run, &kept, sizeof(kept)) != CUDA_SUCCESS) return kUnhandledCudaError;
  plan.release();
  return kSuccess;
}

void MakeAll(std::vector<std::function<void()>> makes) {
  if (makes.size() == 1) return makes[0]();
  std::vector<std::thread> threads;
  threads.reserve(makes.size());
  for (std::function<void()>& make : makes) threads.emplace_back(std::move(make));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void StartGroup() { ++OfThread().depth; }

int EndGroup() {
  Group& group = OfThread();
  Demand(group.depth > 0, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return kSuccess;
  if (!group.makes.empty()) MakeAll(std::exchange(group.makes, {}));
  std::vector<Pending> calls = std::exchange(group.pending, {});
  const bool of_several = calls.size() > 1;
  int result = kSuccess;
  for (Pending& pending : calls) {
    if (of_several) cuCtxPushCurrent(pending.communicator->context());
    const int launched = Launch(std::move(pending));
    if (of_several) cuCtxPopCurrent(nullptr);
    if (launched != kSuccess) result = launched;
  }
  return result;
}

int Enqueue(Communicator* communicator, const Operation& operation, CUstream stream) {
  StartGroup();
  Group& group = OfThread();
  Pending* found = nullptr;
  for (Pending& pending : group.pending) {
    if (pending.communicator == communicator) found = &pending;
  }
  if (found == nullptr) found = &group.pending.emplace_back(Pending{communicator, stream, {}});
  Demand(found->stream == stream, "calls of one group and one communicator on two streams, which is not emulated");
  found->operations.push_back(operation);
  return EndGroup();
}

int Enqueue(std::function<void()> make) {
  StartGroup();
  OfThread().makes.push_back(std::move(make));
  return EndGroup();
}

}  // namespace emulator::nccl
