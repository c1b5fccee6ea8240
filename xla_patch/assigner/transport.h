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

// Whether a transport carries the parts of collectives that are divided by NVLink domain (hierarchical_rule.h).
//
//   kNothing    it does not
//   kOnRequest  it does where XLA_SHMEM_HIERARCHICAL is on: on GPU, where no model tells when that is faster
//   kIfFaster   it does, and there is a model
enum class Divides : uint8_t { kNothing, kOnRequest, kIfFaster };

// The collectives that the SHMEM runtime of this job can carry. The rules decide without it; a veto changes only what
// is lowered, and is reported beside the decision.
struct Transport {
  bool available = false;
  std::string unavailable_reason;  // shown to the user when not available
  // Ops: with any type of whole bytes where they only move them; where they reduce, what Supports (reduction_kind.h).
  std::vector<CollectiveOp> carried;
  // Members of the largest group; 0 for any number.
  int64_t max_group = 0;
  // Arrays of the largest all-to-all that has one for each member; 0 for any number.
  int64_t max_all_to_all_arrays = 0;
  Divides divides = Divides::kNothing;
  // Device id -> reach domain: devices of one domain can put into each other's memory. A missing device
  // reaches no other; no map means that every device reaches every other.
  std::optional<std::unordered_map<int64_t, int32_t>> reach;
};

// Shared memory on one host (or whatever `reach` says; no map: everywhere), and the GPU runtime between GPUs of equal
// `reach`. Both carry the ops of the table in types/collective_op.h.
Transport CpuTransport(std::optional<std::unordered_map<int64_t, int32_t>> reach);
Transport GpuTransport(std::unordered_map<int64_t, int32_t> reach);

// The GPU runtime inside a patched XLA, which runs each collective whole.
Transport PatchedXlaTransport(std::unordered_map<int64_t, int32_t> reach);

// Whether it carries the op for some types and reductions.
bool Carries(const Transport& transport, CollectiveOp op);

// Why the transport has no such op, type or reduction, whatever the participants.
Unsupported UnsupportedKind(const CollectiveSpec& spec, const Transport& transport);

// Why the transport would not carry `spec` even if all its devices reached each other.
Unsupported UnsupportedWithinReach(const CollectiveSpec& spec, const Transport& transport);

// Why its devices do not reach each other.
Unsupported UnsupportedReach(const CollectiveSpec& spec, const Topology& topology, const Transport& transport);

// Why the transport does not carry `spec`: the two together.
Unsupported UnsupportedByTransport(const CollectiveSpec& spec, const Topology& topology, const Transport& transport);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TRANSPORT_H_
