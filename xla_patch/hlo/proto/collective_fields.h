#ifndef XLA_SHMEM_HLO_PROTO_COLLECTIVE_FIELDS_H_
#define XLA_SHMEM_HLO_PROTO_COLLECTIVE_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/groups.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// One xla.OutputOperandAliasing: this part of the result is the same buffer as that part of an operand.
struct Aliasing {
  std::vector<int64_t> output_index;
  int64_t operand = 0;
  std::vector<int64_t> operand_index;
};

std::string EncodeAliasing(const Aliasing& aliasing);

// False if malformed.
bool DecodeAliasing(std::string_view proto, Aliasing* aliasing);

// The fields of a collective's HloInstructionProto that the pass reads, decoded.
struct CollectiveFields {
  std::string_view name;
  std::string_view custom_call_target;
  std::string_view source_file;  // from the metadata, or from the stack frame that it names
  int64_t source_line = 0;
  int64_t stack_frame = 0;  // see hlo/proto/source_lines.h
  bool has_channel_id = false;
  int64_t channel_id = 0;  // if it has one
  bool use_global_device_ids = false;
  bool has_slices = false;      // in-place permute of slices (dynamic_slice_sizes)
  bool has_two_shapes = false;  // legal protobuf (they merge), but nothing XLA writes
  bool has_control_predecessors = false;
  GroupFields groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  std::vector<int64_t> operand_ids;
  std::vector<int64_t> callees;
  std::vector<int64_t> dimensions;  // all-gather: gathered; reduce-scatter: scattered; all-to-all of one array: split
  std::vector<Aliasing> aliasing;
  std::vector<std::string_view> frontend_attributes;  // one entry unless the field is repeated
  std::string_view backend_config;                    // payloads resolved
};

// Reads the HloInstructionProto `body`.
Result<CollectiveFields> DecodeCollective(const Module& module, std::string_view body);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_COLLECTIVE_FIELDS_H_
