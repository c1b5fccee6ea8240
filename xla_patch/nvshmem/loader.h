// Opens libnvshmem_host.so.3 with dlopen and fills the table of api.h from it.
//
// Nothing links against NVSHMEM and the package does not contain it: its licence is NVIDIA's and most machines lack it.
// Opening works on machines without a GPU; NVSHMEM's init does not. The init calls stand beside the table because they
// are made once, by gpu/bootstrap.h. Their argument structs are opaque here (sizes as in NVSHMEM 3.x).
#ifndef XLA_SHMEM_NVSHMEM_LOADER_H_
#define XLA_SHMEM_NVSHMEM_LOADER_H_

#include <string>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct NvshmemLibrary {
  std::string path;
  int major = 0, minor = 0, patch = 0;
  NvshmemApi api{};

  // nvshmemx_hostlib_init_attr and related calls. nvshmemx_init_attr is left out: it exits the process on failure.
  int (*hostlib_init_attr)(unsigned flags, void* attributes) = nullptr;
  int (*init_status)() = nullptr;
  void (*hostlib_finalize)() = nullptr;
  int (*get_uniqueid)(void* unique_id) = nullptr;
  int (*set_attr_uniqueid_args)(int rank, int ranks, const void* unique_id, void* attributes) = nullptr;
};

// Oldest release whose host API the table was written against.
inline constexpr int kMinimumNvshmemMajor = 3;

// Opens the first of `candidates` (paths or sonames) that opens. Error, with everything that was tried and the pip line
// that installs the library, if none opens, if it lacks a call, or if the release is too old.
Result<NvshmemLibrary> LoadNvshmem(const std::vector<std::string>& candidates);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_LOADER_H_
