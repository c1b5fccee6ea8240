// Opens libnvshmem_host.so.3 with dlopen and fills the table of api.h from it.
//
// Nothing links against NVSHMEM and nothing of it is shipped: its licence is NVIDIA's and most machines do not have it.
// Opening works on machines without a GPU (initialising does not). The init calls are kept beside the table because
// only the GPU road makes them. Argument structs are opaque here: sizes as in NVSHMEM 3.x, checked against the version
// the library reports.
#ifndef XLA_SHMEM_NVSHMEM_LOADER_H_
#define XLA_SHMEM_NVSHMEM_LOADER_H_

#include <string>
#include <vector>

#include "xla_patch/nvshmem/api.h"

namespace xla_shmem {

struct NvshmemLibrary {
  std::string path;
  int major = 0, minor = 0, patch = 0;
  NvshmemApi api{};

  // nvshmemx_hostlib_init_attr and friends; nvshmemx_init_attr is deliberately absent: it exits the process on failure.
  int (*hostlib_init_attr)(unsigned flags, void* attributes) = nullptr;
  int (*init_status)() = nullptr;
  void (*hostlib_finalize)() = nullptr;
  int (*get_uniqueid)(void* unique_id) = nullptr;
  int (*set_attr_uniqueid_args)(int rank, int ranks, const void* unique_id, void* attributes) = nullptr;
};

// Oldest release whose host API the table was written against.
inline constexpr int kMinimumNvshmemMajor = 3;

// Tries `candidates` in order (paths or sonames). False, with a sentence naming what was tried and the pip line that
// installs it, when none opens, a symbol is missing, or the release is too old.
bool LoadNvshmem(const std::vector<std::string>& candidates, NvshmemLibrary* library, std::string* error);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_LOADER_H_
