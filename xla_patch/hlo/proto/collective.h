#ifndef XLA_SHMEM_HLO_PROTO_COLLECTIVE_H_
#define XLA_SHMEM_HLO_PROTO_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/hlo/proto/collective_fields.h"
#include "xla_patch/hlo/proto/shape.h"

namespace xla_shmem::hlo {

// How a collective is written.
//
//   kSync       one instruction, the collective or its fusion
//   kStartDone  a pair of instructions of its own opcode
//   kWrapped    a generic async-start/async-done pair around a computation that holds nothing but the collective, or
//               its fusion
//   kLowered    a custom call that this pass wrote
enum class CollectiveForm { kSync, kStartDone, kWrapped, kLowered };

// A branch of a conditional.
struct Branch {
  int64_t conditional = 0;  // its number among the module's instructions
  int64_t number = 0;       // of the branch
};

// A collective as the copies of its program on other ranks have it, which may differ in constants (program_identity.h).
struct CollectiveIdentity {
  uint64_t form = 0;   // of the program: equal where all its collectives and their source lines are; 0: not known
  int64_t place = -1;  // among the collectives of the program, in scheduled order; -1: not known
  // Of each operand: a hash of what is moved and how, and the inputs that it depends on (sources.h). Empty if no two
  // operands of the program look alike.
  std::vector<std::pair<uint64_t, uint64_t>> sources;
  std::vector<Branch> branches;  // in which it lies
};

struct Collective {
  CollectiveForm form = CollectiveForm::kSync;
  size_t computation = 0;  // where it is issued, which is what a user sees
  size_t instruction = 0;  // there: the collective itself, its fusion, its start, or the async-start
  int64_t done = -1;       // there: its done, if it has exactly one
  size_t op_computation = 0;
  size_t op = 0;  // the instruction with groups or pairs: `instruction`, or the collective in the computation it calls
  int64_t fusion = -1;      // the fusion that does `op` and no more, by a kernel of XLA:GPU's
  CollectiveFields fields;  // of `op`, with the operands of `instruction`
  Shape result;
  int64_t operand_space = 0;    // memory space of operand 0
  CollectiveSpec spec;          // everything but the module's placement
  CollectiveIdentity identity;  // set by IdentifyCollectives
  // Result i, or the only result, is in the buffer of operand i, by XLA's own choice. Not for kSync, but for a ragged
  // all-to-all.
  std::vector<bool> in_place;
  bool has_s64_numbers = true;   // offsets and sizes of a ragged all-to-all are s64
  bool has_work_between = true;  // an instruction that takes time runs between start and done
  Unsupported unsupported_form;  // why its form cannot be replaced in place, whatever the transport
};

// Why no transport of XLA:GPU's can carry it in its form.
inline Unsupported UnsupportedOnGpu(const Collective& collective) {
  if (collective.has_s64_numbers || collective.unsupported_form.has_value()) return collective.unsupported_form;
  return "its offsets and sizes are not s64";
}

// Written as two instructions, a start and a done.
inline bool IsPair(const Collective& collective) {
  return collective.form == CollectiveForm::kStartDone || collective.form == CollectiveForm::kWrapped;
}

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_COLLECTIVE_H_
