#ifndef XLA_SHMEM_HLO_ANALYSIS_TRAFFIC_H_
#define XLA_SHMEM_HLO_ANALYSIS_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "xla_patch/hlo/analysis/work.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// Work::bytes of instruction `index`. Its kind, and all fields of the instructions that it calls, must be set.
int64_t CountTraffic(const Module& module, const std::vector<Work>& work, size_t index);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_ANALYSIS_TRAFFIC_H_
