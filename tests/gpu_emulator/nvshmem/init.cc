// Versions, the unique id, init.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "driver/memory_operations.h"
#include "driver/multicast.h"
#include "driver/settings.h"
#include "nvshmem/control.h"
#include "nvshmem/init_arguments.h"
#include "nvshmem/variables.h"
#include "nvshmem/world.h"

namespace emulator::nvshmem {
namespace {

constexpr size_t kMiB = 1 << 20;
// The real library's memory for each team that may exist: half a MiB of NVSHMEM_REDUCE_SCRATCH_SIZE, and less than
// 100 KiB for synchronisation.
constexpr size_t kTeamBytes = 600 << 10;

constexpr char kNamePrefix[] = "/gpu-emulator-nvshmem-";

// Ends the process unless `wrong` is "".
void DemandRight(const std::string& wrong) { Demand(wrong.empty(), wrong); }

// What the real library would take without an error and fail with later, on some machines.
void CheckVariables() {
  Demand(Variable("NVSHMEM_DISABLE_NCCL", "") == "1", "NVSHMEM_DISABLE_NCCL is not 1");
  Demand(Variable("NVSHMEM_REMOTE_TRANSPORT", "") == "none", "NVSHMEM_REMOTE_TRANSPORT is not none");
  Demand(!Variable("NVSHMEM_SYMMETRIC_SIZE", "").empty(), "NVSHMEM_SYMMETRIC_SIZE is not set");
  Demand(!Variable("NVSHMEM_MAX_TEAMS", "").empty(), "NVSHMEM_MAX_TEAMS is not set");
}

// The heap grows in steps, of which there is at least one.
size_t HeapBytes() {
  const size_t step = VariableBytes("NVSHMEM_CUMEM_GRANULARITY", 512 * kMiB);
  return (VariableBytes("NVSHMEM_SYMMETRIC_SIZE", 1024 * kMiB) + step - 1) / step * step;
}

bool PublishHeap(World& world) {
  Control::Pe& own = TheControl().pes[world.me];
  CUdeviceptr heap = 0;
  world.heap_bytes = HeapBytes();
  if (cuCtxGetDevice(&own.device) != CUDA_SUCCESS || cuMemAlloc(&heap, world.heap_bytes) != CUDA_SUCCESS ||
      cuIpcGetMemHandle(&own.heap, heap) != CUDA_SUCCESS || gpu_emulator_treat_as_virtual(heap) != CUDA_SUCCESS) {
    return false;
  }
  own.heap_bytes = world.heap_bytes;
  world.heaps.resize(world.size);
  world.heaps[world.me] = reinterpret_cast<char*>(heap);
  own.published.store(1);
  return true;
}

bool MapHeaps(World& world) {
  for (int pe = 0; pe < world.size; ++pe) {
    const Control::Pe& other = TheControl().pes[pe];
    if (!WaitUntil([&] { return other.published.load() == 1; })) return false;
    if (pe == world.me) continue;
    world.shares_gpu |= other.device == TheControl().pes[world.me].device;
    CUdeviceptr heap = 0;
    if (cuIpcOpenMemHandle(&heap, other.heap, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS ||
        gpu_emulator_treat_as_virtual(heap) != CUDA_SUCCESS) {
      return false;
    }
    world.heaps[pe] = reinterpret_cast<char*>(heap);
  }
  return true;
}

// NVLink SHARP: GPUs of compute capability 9.0 behind switches, one for each PE. GPU_EMULATOR_NVLS=0 takes it away.
bool MapMulticast(World& world) {
  Demand(!AsksForNvls() || !world.shares_gpu,
         "multicast memory for PEs that share a GPU: NVSHMEM_DISABLE_NVLS is not 1");
  if (!AsksForNvls() || world.size < 2 || !HasMulticast()) return true;
  std::vector<CUdeviceptr> heaps;
  for (char* const heap : world.heaps) heaps.push_back(reinterpret_cast<CUdeviceptr>(heap));
  CUdeviceptr multicast = 0;
  if (gpu_emulator_multicast(&multicast, heaps.data(), heaps.size(), world.heap_bytes) != CUDA_SUCCESS) return false;
  world.multicast = reinterpret_cast<char*>(multicast);
  return true;
}

bool Connect(World& world, const std::string& name) {
  if (MapControl(name) == nullptr || !PublishHeap(world) || !MapHeaps(world)) return false;
  // The last one to come removes the name.
  if (TheControl().attached.fetch_add(1) + 1 == static_cast<uint32_t>(world.size)) shm_unlink(name.c_str());
  const size_t teams = strtoull(Variable("NVSHMEM_MAX_TEAMS", "256").c_str(), nullptr, 10);
  // Before any other allocation: PEs that know other numbers of teams have later objects at other offsets.
  world.used_bytes = teams * kTeamBytes * (Failing("other-layout") ? 2 : 1);
  CheckTeams();
  return MapMulticast(world) && Meet();
}

}  // namespace

extern "C" {

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = Failing("old") ? 2 : 3;
  *minor = Failing("old") ? 11 : 8;
  *patch = 0;
}

int nvshmemx_get_uniqueid(UniqueId* id) {
  ReadVariables();
  if (Failing("no-id")) return kInternalError;
  *id = {(1 << 16) + static_cast<int32_t>(sizeof(UniqueId)), {}};
  std::random_device random;
  snprintf(id->internal, sizeof(id->internal), "%s%08x%08x", kNamePrefix, random(), random());
  return 0;
}

int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId* id, InitAttributes* attributes) {
  DemandRight(WrongAttributes(*attributes));
  attributes->arguments.unique_id.id = id;
  attributes->arguments.unique_id.rank = rank;
  attributes->arguments.unique_id.ranks = ranks;
  return 0;
}

int nvshmemx_hostlib_init_attr(unsigned flags, InitAttributes* attributes) {
  ReadVariables();
  while (Failing("hang")) pause();
  World& world = TheWorld();
  Demand(flags == kInitWithUniqueId, "init with flags " + std::to_string(flags));
  Demand(world.status == InitStatus::kNone, "a second init");
  CUcontext context = nullptr;
  Demand(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr, "init without a current CUDA context");
  DemandRight(WrongAttributes(*attributes));
  CheckVariables();
  const UniqueIdArguments& arguments = attributes->arguments.unique_id;
  DemandRight(WrongUniqueId(arguments.id));
  const std::string name = arguments.id->internal;
  Demand(name.rfind(kNamePrefix, 0) == 0, "this unique id is not of nvshmemx_get_uniqueid");
  Demand(arguments.rank >= 0 && arguments.rank < arguments.ranks && arguments.ranks <= kMaxPes,
         "init as PE " + std::to_string(arguments.rank) + " of " + std::to_string(arguments.ranks));
  if (Failing("no-init")) return kInternalError;
  // The real library leaves this flag on the primary context.
  unsigned context_flags = 0;
  cuCtxGetFlags(&context_flags);
  cuCtxSetFlags(context_flags | CU_CTX_SYNC_MEMOPS);
  world.me = arguments.rank;
  world.size = arguments.ranks;
  if (!Connect(world, name)) {
    fprintf(stderr, "emulated NVSHMEM: PE %d of %d could not connect its heap\n", world.me, world.size);
    shm_unlink(name.c_str());
    return kInternalError;
  }
  world.status = Failing("half-init") ? InitStatus::kBootstrapped : InitStatus::kInitialized;
  return 0;
}

int nvshmemx_init_status() { return static_cast<int>(TheWorld().status); }
void nvshmemx_hostlib_finalize() { Refuse("finalize is collective, and a process that ends does not wait for others"); }
int nvshmem_my_pe() { return Initialized("nvshmem_my_pe").me; }
int nvshmem_n_pes() { return Initialized("nvshmem_n_pes").size; }

}  // extern "C"

}  // namespace emulator::nvshmem
