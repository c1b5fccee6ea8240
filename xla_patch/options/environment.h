// The options of a process without Python: a patched jaxlib reads the same variables as the plugin (docs/options.md) by
// the same table and code, so the errors are equal too.
#ifndef XLA_SHMEM_OPTIONS_ENVIRONMENT_H_
#define XLA_SHMEM_OPTIONS_ENVIRONMENT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/options/given_options.h"
#include "xla_patch/types/gpu_permute.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct EnvironmentOptions {
  Options rules;  // of XLA_SHMEM_PROFILE, _THRESHOLD, _OPS and _TUNING
  // Devices of an NVLink domain; 0: those of a host. None: as the transport finds them.
  std::optional<int64_t> nvlink_domain;
  std::optional<int64_t> heap_bytes;
  std::chrono::nanoseconds deadline{std::chrono::seconds(9'000'000'000)};  // TimeLimit(inf)
  bool driver_heap = false;                                                // XLA_SHMEM_GPU_HEAP=driver
  bool nvshmem_puts = false;  // puts and signals by NVSHMEM's calls, not the driver's
  GpuPermute gpu_permute = GpuPermute::kAuto;
  bool multimem = false;        // reductions in the NVLink switch, where it can
  std::string nvshmem_library;  // "" to search for it
  bool statistics = false;
  std::string trace;    // the path of the file; "" for none
  std::string records;  // "auto", "off" or a directory

  std::string agreement;  // the values that must be equal in all processes of a job, by name
};

// Reads the rows with kPatchedJaxlib, and for profile "tuned" the table. An error names the variable, the value and the
// way out: a name that is no option, a value that is not allowed, an option without an effect, or a table that cannot
// be used. Of a table's fingerprint only the options are compared.
Result<EnvironmentOptions> ReadEnvironment(const Variables& variables);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_OPTIONS_ENVIRONMENT_H_
