#include "xla_patch/nvshmem/gpu/bootstrap.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace xla_shmem::gpu {
namespace {

constexpr unsigned kInitWithUniqueId = 1 << 3;  // NVSHMEMX_INIT_WITH_UNIQUEID
constexpr int kStatusInitialized = 2;           // NVSHMEM_STATUS_IS_INITIALIZED; earlier states are lower

// Argument structs of NVSHMEM 3 in their first version, which every 3.x accepts. A version is 1 << 16 plus the size.
constexpr int VersionOf(size_t bytes) { return (1 << 16) + static_cast<int>(bytes); }

struct UniqueId {
  int32_t version = VersionOf(kUniqueIdBytes);
  char content[kUniqueIdBytes - sizeof(int32_t)] = {};
};
static_assert(sizeof(UniqueId) == kUniqueIdBytes);

struct UniqueIdArguments {
  int32_t version = VersionOf(24);
  UniqueId* id = nullptr;
  int32_t rank = -1;
  int32_t ranks = -1;
};
static_assert(sizeof(UniqueIdArguments) == 24);

struct InitArguments {
  int32_t version = VersionOf(128);
  UniqueIdArguments unique_id;
  char padding[96] = {};
};
static_assert(sizeof(InitArguments) == 128);

struct InitAttributes {
  int32_t version = VersionOf(144);
  void* mpi_comm = nullptr;
  InitArguments arguments;
};
static_assert(sizeof(InitAttributes) == 144);

// Gives the current context its flags back. NVSHMEM sets CU_CTX_SYNC_MEMOPS, which serves network transports; XLA would
// report flags that it has not set as an error, in every process.
class KeptContextFlags {
 public:
  explicit KeptContextFlags(const CudaDriver& cuda) : cuda_(cuda) {
    known_ =
        cuda.ctx_get_flags != nullptr && cuda.ctx_set_flags != nullptr && cuda.ctx_get_flags(&flags_) == kCudaSuccess;
  }
  ~KeptContextFlags() {
    if (known_) cuda_.ctx_set_flags(flags_);
  }
  KeptContextFlags(const KeptContextFlags&) = delete;
  KeptContextFlags& operator=(const KeptContextFlags&) = delete;

 private:
  const CudaDriver& cuda_;
  unsigned flags_ = 0;
  bool known_ = false;
};

}  // namespace

Result<std::string> MakeUniqueId(const NvshmemLibrary& library) {
  UniqueId unique;
  const int status = library.get_uniqueid(&unique);
  if (status != 0) {
    return Status::Error("NVSHMEM could not make a unique id (status " + std::to_string(status) +
                         "): NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME names the network interface to use");
  }
  return std::string(reinterpret_cast<const char*>(&unique), sizeof(unique));
}

Status JoinWorld(const NvshmemLibrary& library, const CudaDriver& cuda, int pe, int n_pes,
                 const std::string& unique_id) {
  if (unique_id.size() != kUniqueIdBytes) {
    return Status::Error("the unique id has " + std::to_string(unique_id.size()) + " bytes, not " +
                         std::to_string(kUniqueIdBytes));
  }
  const KeptContextFlags kept(cuda);
  UniqueId id;
  memcpy(&id, unique_id.data(), sizeof(id));
  InitAttributes attributes;
  int status = library.set_attr_uniqueid_args(pe, n_pes, &id, &attributes);
  if (status == 0) status = library.hostlib_init_attr(kInitWithUniqueId, &attributes);
  std::string failed = status == 0 ? "" : "status " + std::to_string(status);
  // Init returns 0 even if it got no further than its bootstrap; the next NVSHMEM call would then end the process.
  if (status == 0 && library.init_status() < kStatusInitialized) failed = "it got no further than its bootstrap";
  if (failed.empty()) return {};
  return Status::Error("NVSHMEM " + std::to_string(library.major) + "." + std::to_string(library.minor) +
                       " could not start as PE " + std::to_string(pe) + " of " + std::to_string(n_pes) + " (" + failed +
                       "): NVSHMEM_DEBUG=INFO shows why");
}

size_t OffsetInHeap(const NvshmemApi& api, const void* object, int pe) {
  const auto address = reinterpret_cast<uintptr_t>(object);
  // nvshmem_ptr is null for addresses below the heap.
  const auto within = [&](uintptr_t bytes_before) {
    return api.ptr(reinterpret_cast<const void*>(address - bytes_before), pe) != nullptr;
  };
  uintptr_t outside = 1;
  while (within(outside)) {
    if (outside > address / 2) return 0;
    outside *= 2;
  }
  uintptr_t inside = outside / 2;
  while (outside - inside > 1) {
    const uintptr_t middle = inside + (outside - inside) / 2;
    (within(middle) ? inside : outside) = middle;
  }
  return inside;
}

}  // namespace xla_shmem::gpu
