#ifndef XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_ON_GPU_H_
#define XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_ON_GPU_H_

#include <vector>

#include "xla_patch/assigner/hierarchy.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"

namespace xla_shmem::hlo {

// Divides a collective of a module of XLA:GPU (assigner/hierarchy.h). The collective itself becomes the part between
// domains: other groups or pairs, in some ops smaller arrays, and everything else as it was. So a start/done pair stays
// one, with the same work between, and XLA emits it as before. SHMEM calls in the domain stand before it (its start) or
// behind it (its done). With H domains of L devices each:
//
//   all-reduce      before: reduce-scatter to 1/L. Behind: all-gather. What L does not divide, less than L elements, is
//                   reduced by all devices of a domain, and one of them gives its result to the others
//   all-gather      behind: all-gather of the parts of H devices
//   reduce-scatter  before: reduce-scatter to the parts of H devices
//   all-to-all      behind: all-to-all. Between domains go arrays of L parts
//   permute         behind: permute of the pairs in the domain, into the result of those between domains
//   broadcast       from the root to one device of each domain; all other devices are groups of one. Behind: broadcast
//
// No operand is read, and no result written, while the collective did not use it.
struct DividedCollectiveOnGpu {
  std::vector<InstructionEdit> edits;
  std::vector<CollectiveRecord> parts;
};

// `record`: of the whole collective.
DividedCollectiveOnGpu DivideCollectiveOnGpu(const Module& module, const Topology& topology,
                                             const Collective& collective, const Hierarchy& hierarchy,
                                             const CollectiveRecord& record, NewNumbers* numbers);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_HIERARCHICAL_COLLECTIVE_ON_GPU_H_
