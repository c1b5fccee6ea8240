#ifndef XLA_SHMEM_HLO_REWRITE_EDITOR_H_
#define XLA_SHMEM_HLO_REWRITE_EDITOR_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/collective_fields.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// How an instruction becomes a custom call.
struct CustomCall {
  std::string target;
  std::string backend_config;
  std::optional<std::string_view> shape;         // a ShapeProto to use instead of its own
  std::optional<int64_t> id;                     // replaces another instruction, or is new
  std::optional<std::string> name;               // of a new one
  std::optional<std::vector<int64_t>> operands;  // to use instead of its own
  std::vector<int64_t> extra_operands;           // behind these
  std::vector<Aliasing> aliasing;
};

// The instruction's bytes with our attributes set. Every other field stays as and where it was.
std::string WithAttributes(std::string_view body, const Attributes& own);

// The instruction's bytes as a typed-FFI custom call with side effects, in its old place under its old id unless `call`
// says otherwise. Fields a custom call cannot have (groups, pairs, dimensions, channel, callees, thread, layout
// constraint) are removed; all others (metadata, control predecessors, sharding, unknown fields) stay.
std::string AsCustomCall(std::string_view body, const CustomCall& call, const Attributes& own);

// The same as an opt-barrier, which returns its operand. XLA:GPU's OptimizationBarrierExpander runs after the hook and
// removes it from module and schedule.
std::string AsBarrier(std::string_view body, const Attributes& own);

struct NewInstruction {
  std::string body;
  int64_t id;
};

struct InstructionEdit {
  size_t computation = 0;
  size_t instruction = 0;
  std::string body;                    // empty: the instruction is removed
  std::vector<NewInstruction> before;  // inserted right before it, in this order
  // And right behind it. NOLINTNEXTLINE(readability-redundant-member-init): may be left out
  std::vector<NewInstruction> after = {};
};

// The module with these instructions replaced, removed or added, also in the schedule, and without the computations in
// `removed`; all other bytes stay in their order. `edits` must be in module order, with each instruction at most once.
// No instruction that stays may refer to one that is removed.
std::string ApplyEdits(const Module& module, const std::vector<InstructionEdit>& edits,
                       const std::set<size_t>& removed = {});

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_EDITOR_H_
