#ifndef XLA_SHMEM_HLO_PROTO_MODULE_READER_H_
#define XLA_SHMEM_HLO_PROTO_MODULE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "xla_patch/hlo/proto/opcode.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// One instruction as it lies in the module: the fields that are needed of every instruction. collective_fields.h
// decodes those of collectives.
struct Instruction {
  std::string_view whole;  // the field inside the computation, tag included
  std::string_view body;   // the HloInstructionProto
  std::string_view shape;
  std::string_view packed_operands;  // operand_ids in their usual, packed form
  int64_t id = 0;
  Opcode opcode;
  bool has_loose_operands = false;  // operand_ids are not in one packed field: DecodeOperands reads the body
  bool is_lowered = false;          // a custom-call that this pass wrote for a collective
};

struct Computation {
  std::string_view whole;
  std::string_view body;
  std::string_view name;
  int64_t id = 0;
  int64_t root_id = 0;
  size_t first = 0;  // instructions()[first, last)
  size_t last = 0;
  bool is_fusion = false;
  bool is_reachable = false;      // the entry leads to it, or is it; XLA drops the others
  int32_t loop_depth = 0;         // how many while loops it runs inside of
  int64_t executions = 0;         // in one run of the module; -1 if a trip count is unknown or a branch decides
  bool has_many_callers = false;  // it, or something that leads to it, is called from more than one place
  size_t caller = 0;              // where it is called from, if it is reachable and not the entry
  size_t caller_instruction = 0;  // there
  size_t caller_place = 0;        // among that instruction's callees
  int64_t async_start = -1;       // index of the async-start that wraps it
  size_t async_computation = 0;   // and of the computation that one is in
};

struct Module {
  std::string_view bytes;
  std::string_view name;
  std::string_view device_assignment;      // empty if the module has none
  std::string_view input_output_alias;     // xla.HloInputOutputAliasProto; empty if the module has none
  std::string_view stack_frame_index;      // xla.StackFrameIndexProto; empty if the module has none
  std::string_view schedule;               // xla.HloScheduleProto; empty if the module has none
  std::vector<std::string_view> payloads;  // HloModuleProto.payloads, which backend configs may refer to
  std::vector<Computation> computations;
  std::vector<Instruction> instructions;
  size_t entry = 0;  // index of the entry computation
  std::unordered_map<int64_t, size_t> computation_of_id;
  // Hash of what the program computes, equal on all ranks: module name, device assignment, and of each instruction all
  // but its name and what may differ between ranks or does not change results: metadata, stack frames, shardings,
  // frontend attributes, backend configs (local tuning results). Of these only the attributes of typed FFI calls count,
  // without numbers that may be addresses.
  uint64_t structure_hash = 0;
};

// One pass over the bytes; the module points into them. An error, with the place, on anything that is not a well-formed
// module whose computations are listed callees first (as XLA demands).
Result<Module> ReadModule(std::string_view bytes);

// Instruction ids of one computation -> index into Module::instructions.
class InstructionIndex {
 public:
  InstructionIndex(const Module& module, const Computation& computation);
  const Instruction* Find(int64_t id) const;

 private:
  const Module& module_;
  int64_t lowest_ = 0;
  std::vector<int64_t> dense_;  // by id - lowest_, where ids are close together
  std::unordered_map<int64_t, int64_t> sparse_;
};

std::string_view OpcodeOf(const Instruction& instruction);

// Of a custom call; empty for all else.
std::string_view TargetOf(const Instruction& instruction);

// The ids of the instruction's operands. False if they are malformed.
bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids);

// Arithmetic on counts, such as Computation::executions. -1 stands for an unknown count, and for one that does not fit
// in 64 bits.
inline int64_t Sum(int64_t a, int64_t b) {
  int64_t sum;
  return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}
inline int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_MODULE_READER_H_
