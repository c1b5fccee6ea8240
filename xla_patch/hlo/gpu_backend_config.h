#ifndef XLA_SHMEM_HLO_GPU_BACKEND_CONFIG_H_
#define XLA_SHMEM_HLO_GPU_BACKEND_CONFIG_H_

#include <optional>
#include <string_view>

#include "xla_patch/assigner/assigner.h"

namespace xla_shmem::hlo {

// What stock XLA:GPU recorded in an instruction's backend_config, the JSON of a GpuBackendConfig:
//
//   {..., "collective_backend_config": {..., "backend": "NVSHMEM", ...}, ...}
//
// Releases differ in which other members there are and leave default ones out, so only this path is looked at. Nothing
// if there is no collective_backend_config, or the text is not JSON.
std::optional<Backend> ReadStockBackend(std::string_view json);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_GPU_BACKEND_CONFIG_H_
