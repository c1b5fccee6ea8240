#ifndef XLA_SHMEM_ASSIGNER_HIERARCHICAL_RULE_H_
#define XLA_SHMEM_ASSIGNER_HIERARCHICAL_RULE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/hierarchy.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem {

// Times in µs of a collective that crosses domains: whole on the default backend, and divided. A model with round
// numbers for TCP between hosts and memory within one (see the .cc file), not a measurement.
struct HierarchicalTimes {
  double whole_us = 0;
  double divided_us = 0;
};
HierarchicalTimes ExpectHierarchicalTimes(const CollectiveSpec& spec, const Hierarchy& hierarchy);

// Whether a collective that cannot run on SHMEM as a whole, because it crosses NVLink domains, is divided into parts
// within domains on SHMEM and a part between domains on the default backend. `form`: as for DecideAndRecord.
struct HierarchicalDecision {
  std::optional<Hierarchy> hierarchy;  // none if it is not divided
  std::string reason;                  // for either
};
HierarchicalDecision DecideHierarchical(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                                        const Transport& transport, const Unsupported& form);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_HIERARCHICAL_RULE_H_
