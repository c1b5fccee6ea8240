#ifndef XLA_SHMEM_HLO_PROTO_MODULE_HEADER_H_
#define XLA_SHMEM_HLO_PROTO_MODULE_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Facts about a module that need no full read.
struct ModuleHeader {
  std::string_view name;
  DeviceAssignment assignment;  // unknown if the module has none
  bool is_gpu_form = false;     // XLA:GPU compiled it: a collective is a start/done pair, or has a backend config
  // XLA's partitioner has not run, so collectives are missing: the module has no schedule, and instructions that are no
  // parameters are divided among devices. Parameters keep their shardings on GPU.
  bool awaits_partitioning = false;
};

// The xla.HloModuleProto in `bytes`: all of them, or the module inside an xla.HloProto or xla.HloSnapshot. The result
// points into `bytes`. The message of an error follows a file's name: "is not an HLO module".
Result<std::string_view> UnwrapModule(std::string_view bytes);

// The header points into `module`. An error if a top-level field or the device assignment is malformed; damage inside
// computations is ignored, for the readers that decode them.
Result<ModuleHeader> ReadModuleHeader(std::string_view module);

// The module with XLA's default device assignment: device r * partitions + p runs replica r of partition p. The module
// must have none. An error for more than DeviceAssignment::kMaxDevices.
Result<std::string> WithDefaultAssignment(std::string_view module, int64_t replicas, int64_t partitions);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_MODULE_HEADER_H_
