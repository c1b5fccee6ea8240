#ifndef XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_
#define XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/proto/output_aliasing.h"
#include "xla_patch/hlo/proto/replica_groups.h"
#include "xla_patch/hlo/proto/shape.h"

namespace xla_shmem::hlo {

// The fields of a collective's HloInstructionProto that the pass reads, decoded.
struct CollectiveFields {
  std::string_view name;
  std::string_view custom_call_target;
  std::string_view source_file;  // from the metadata, or from the stack frame that it names
  int64_t source_line = 0;
  int64_t stack_frame = 0;  // see hlo/proto/source_lines.h
  bool has_channel_id = false;
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

// How a collective is written.
//
//   kSync       one instruction
//   kStartDone  a pair of instructions of its own opcode
//   kWrapped    a generic async-start/async-done pair around a computation that holds nothing but the collective
//   kLowered    a custom call that this pass wrote
enum class CollectiveForm { kSync, kStartDone, kWrapped, kLowered };

struct Collective {
  CollectiveForm form = CollectiveForm::kSync;
  size_t computation = 0;  // where it is issued: what a user sees
  size_t instruction = 0;  // there: the collective itself, its start, or the async-start
  int64_t done = -1;       // there: what waits for it, if it has exactly one
  size_t op_computation = 0;
  size_t op = 0;            // what has groups or pairs: `instruction`, or the collective in the async computation
  CollectiveFields fields;  // of `op`, with the operands of `instruction`
  Shape result;
  CollectiveSpec spec;           // everything but the module's placement
  std::vector<bool> in_place;    // result i is in the buffer of operand i, by XLA's own choice; not for kSync
  bool has_work_between = true;  // something runs between start and done that takes time
  std::string obstacle;          // not empty: why its form cannot be replaced in place, whatever the transport
};

// All collectives that the entry leads to, outside of fusions, in module order; a start/done pair, and an async-start
// with what it wraps, count once. `assignment` gives the ids their meaning. False if the bytes of a collective are
// corrupt; one that is merely odd does not spoil the rest: groups that make no sense go to spec.unresolved, other
// problems to `obstacle`.
bool FindCollectives(const Module& module, const DeviceAssignment& assignment, std::vector<Collective>* collectives,
                     std::string* error);

// sum, prod, min, max, and, or, xor for a computation that applies just that to its two parameters (bf16/f16 may detour
// through f32); kNone for any other.
Reduction MatchReduction(const Module& module, int64_t computation_id);

// False if `body` is malformed.
bool DecodeCollective(const Module& module, std::string_view body, CollectiveFields* fields, std::string* error);
bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_
