#ifndef XLA_SHMEM_TESTS_OVERLAY_RANDOM_MODULE_H_
#define XLA_SHMEM_TESTS_OVERLAY_RANDOM_MODULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem::test {

// One case of the differential test: HLO text, the device assignment to set on it, and the job it is compiled for.
struct RandomModule {
  std::string text;
  int64_t replicas = 1;
  int64_t partitions = 1;
  std::vector<std::vector<int64_t>> by_partition;  // device of [partition][replica]; empty: no assignment
  bool lists_as_mesh = false;  // say the iota groups as axes of a mesh, which not every parser of XLA reads
  Options rules;
  Topology topology;
  Transport transport;
};

// The same for the same seed, on every machine.
RandomModule MakeRandomModule(uint64_t seed);

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_OVERLAY_RANDOM_MODULE_H_
