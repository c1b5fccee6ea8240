// Makes XLA:GPU run a collective in another way than it had chosen.
#ifndef XLA_SHMEM_HLO_REWRITE_XLA_WAYS_H_
#define XLA_SHMEM_HLO_REWRITE_XLA_WAYS_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"
#include "xla_patch/hlo/rewrite/pass_options.h"

namespace xla_shmem::hlo {

// The backend_config of a collective, JSON, with symmetric memory as its mode.
std::string WithSymmetricMode(std::string_view config);

// Puts a collective that XLA has fused back in the place of its fusion, so that NCCL runs it. The computation of the
// fusion, which nothing refers to any more, is added to `removed`.
std::vector<InstructionEdit> PutBackFromFusion(const Module& module, const Collective& collective,
                                               const Attributes& attributes, std::set<size_t>* removed);

// Why the form of a collective cannot be changed, whatever its devices.
FormVetoes FormsOf(const Collective& collective, Lowering lowering);

// Gives an all-gather the mode by which XLA runs it with NCCL's put and signal. XLA then puts its buffers into
// collective memory, and all that shares them. No copy insertion follows the hook, and what a caller of the program
// owns cannot lie there. So an operand or result that something else may share is copied.
std::vector<InstructionEdit> MakeOneSided(const Module& module, const Collective& collective,
                                          const Attributes& attributes, NewNumbers* numbers);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_XLA_WAYS_H_
