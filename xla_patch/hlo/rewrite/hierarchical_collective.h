#ifndef XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_H_
#define XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_H_

#include <optional>
#include <vector>

#include "xla_patch/assigner/hierarchy.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/all_to_all_folding.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"

namespace xla_shmem::hlo {

// The instructions that replace a divided collective, and a record for each of those that communicate.
struct DividedCollective {
  InstructionEdit edit;
  std::vector<CollectiveRecord> parts;
};

// Divides a collective of a module of XLA:CPU (assigner/hierarchy.h). With H domains of L devices each:
//
//   all-reduce      SHMEM reduce-scatter in the domain to 1/L, padded to whole cache lines; all-reduce between domains;
//                   SHMEM all-gather in the domain. Where XLA lacks the reduction: an all-gather between domains,
//                   and each device reduces what came
//   all-gather      all-gather between domains; SHMEM all-gather in the domain
//   reduce-scatter  SHMEM reduce-scatter in the domain to the parts of H devices; all-to-all of them between domains;
//                   each device reduces what came. Not a reduce-scatter: gloo's is wrong for large parts (jax issue
//                   40830)
//   all-to-all      SHMEM all-to-all in the domain, so that each pair of domains exchanges one array; all-to-all
//                   between domains; each device puts what came in order
//   permute         collective-permute of the pairs between domains; SHMEM permute of the others, which takes the
//                   result of the first where a pair between domains ends
//   broadcast       collective-permutes of the root to one device of each other domain; SHMEM broadcast in the domain
//
// The parts stand one after the other where the collective was, and the last one has its name, id and shape. So they
// read operands and write results no earlier and no later than it did.
//
// `record`: of the whole collective. `whole`: the arrays that an all-to-all's operands and results are parts of.
DividedCollective DivideCollective(const Module& module, const Topology& topology, const Collective& collective,
                                   const Hierarchy& hierarchy, const CollectiveRecord& record,
                                   const std::optional<WholeArrays>& whole, NewNumbers* numbers);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_H_
