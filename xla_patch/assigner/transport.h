#ifndef XLA_SHMEM_ASSIGNER_TRANSPORT_H_
#define XLA_SHMEM_ASSIGNER_TRANSPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/topology.h"

namespace xla_shmem {

// What the SHMEM runtime of this job can carry. The rules decide without it; a veto only changes what is lowered, and
// is reported beside the decision.
struct Transport {
  // One op it carries. No element types listed: any type of whole bytes. Reductions are looked at for reducing ops
  // only.
  struct Carried {
    OpKind op;
    std::vector<int32_t> element_types;
    std::vector<Reduction> reductions;
  };

  bool available = false;
  std::string unavailable_reason;  // shown to the user when not available
  std::vector<Carried> carried;
  // Members of the largest group that a reduction can take; 0 for any number.
  int64_t max_reduced_group = 0;
  // Device id -> reach domain: devices of one domain can put into each other's memory. A device that is missing reaches
  // nobody; no map at all means every device reaches every other.
  std::optional<std::unordered_map<int64_t, int32_t>> reach;
};

// Permutes of any whole-byte type; all-reduce sum, prod, min and max on f32, f64, bf16, f16, s8-s64, u8-u64. The
// NVSHMEM host API has on-stream reductions for the same set, so CPU and GPU share it.
std::vector<Transport::Carried> StandardCarried();

// Shared memory on one host (or whatever `reach` says).
Transport CpuTransport(std::unordered_map<int64_t, int32_t> reach);

// What the GPU runtime carries between GPUs of equal `reach`.
Transport GpuTransport(std::unordered_map<int64_t, int32_t> reach);

// Empty if the transport carries `spec`; otherwise a sentence naming the op, the value and the limit.
std::string Veto(const CollectiveSpec& spec, const Topology& topology, const Transport& transport);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TRANSPORT_H_
