// The device code, compiled for the CPU. A block is a thread of the host, with one thread of the device.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/multicast.h"
#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/narrow_floats.h"

namespace xla_shmem::gpu {
namespace {

struct Index {
  unsigned x;
};
thread_local Index gridDim, blockDim, blockIdx, threadIdx;  // as CUDA names them

struct DeviceTrap {};

// Longer each time: a hundred blocks that wait must leave two cores to the one that others wait for.
void PauseOnHost() {
  thread_local unsigned pauses = 0;
  usleep(std::min(2000u, 50 + 25 * pauses++));
}
[[noreturn]] void TrapOnHost() { throw DeviceTrap(); }

// Instructions of 16 bytes at multicast addresses.
void MultimemLoadOnHost(const char* address, Elements elements, int kind, void* loaded);
void MultimemStoreOnHost(char* address, const void* value);

// What the compiler must not move across.
void BarrierOnHost() { asm volatile("" ::: "memory"); }

}  // namespace
}  // namespace xla_shmem::gpu

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(threads, blocks)
#define __syncthreads BarrierOnHost
#include "xla_patch/nvshmem/gpu/kernels/kernels.cu"

namespace xla_shmem::gpu {
namespace {

// Begins with another PE each time: in which order the switch adds is not known.
void MultimemLoadOnHost(const char* address, Elements elements, int kind, void* loaded) {
  thread_local size_t first = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::vector<char*> members = nvshmem_double::MemberAddresses(address, kPack);
  std::vector<const char*> inputs;
  inputs.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) inputs.push_back(members[(first + i) % members.size()]);
  ++first;
  alignas(kPack) char reduced[kPack];
  Reduce(elements, kind, inputs.data(), static_cast<int>(inputs.size()), kPack, reduced);
  memcpy(loaded, reduced, kPack);
  nvshmem_double::CountMulticast(/*store=*/false);
}

void MultimemStoreOnHost(char* address, const void* value) {
  for (char* const member : nvshmem_double::MemberAddresses(address, kPack)) memcpy(member, value, kPack);
  nvshmem_double::CountMulticast(/*store=*/true);
}

}  // namespace
}  // namespace xla_shmem::gpu

namespace xla_shmem::testing {
namespace {

template <typename Arguments, void (*kKernel)(Arguments)>
bool Run(const void* argument, unsigned block, unsigned blocks) {
  Arguments arguments;
  memcpy(&arguments, argument, sizeof(arguments));
  gpu::gridDim.x = blocks;
  gpu::blockDim.x = 1;
  gpu::blockIdx.x = block;
  gpu::threadIdx.x = 0;
  try {
    kKernel(arguments);
  } catch (const gpu::DeviceTrap&) {
    return false;
  }
  return true;
}

bool RunTrap(const void*, unsigned, unsigned) { return false; }

}  // namespace

const Kernel* FindKernel(const char* name) {
  static const Kernel move{Run<gpu::CollectiveArguments, gpu::move>, sizeof(gpu::CollectiveArguments), true};
  static const Kernel reduce{Run<gpu::CollectiveArguments, gpu::reduce>, sizeof(gpu::CollectiveArguments), true};
  static const Kernel switched{Run<gpu::CollectiveArguments, gpu::switch_reduction>, sizeof(gpu::CollectiveArguments),
                               true};
  static const Kernel ragged{Run<gpu::RaggedArguments, gpu::ragged_all_to_all>, sizeof(gpu::RaggedArguments), true};
  static const Kernel trap{RunTrap, 0, false};
  const std::string wanted = name;
  return wanted == "move"                ? &move
         : wanted == "reduce"            ? &reduce
         : wanted == "switch_reduction"  ? &switched
         : wanted == "ragged_all_to_all" ? &ragged
         : wanted == "trap"              ? &trap
                                         : nullptr;
}

void ReduceByKernel(const gpu::KernelReduction& reduction, const char* const* inputs, int count, size_t bytes,
                    char* output) {
  gpu::blockDim.x = 1;
  gpu::threadIdx.x = 0;
  gpu::Reduce(reduction.elements, static_cast<int>(reduction.kind), inputs, count, bytes, output);
}

}  // namespace xla_shmem::testing
