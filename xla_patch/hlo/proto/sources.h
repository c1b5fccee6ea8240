// Which inputs of a computation its instructions depend on.
#ifndef XLA_SHMEM_HLO_PROTO_SOURCES_H_
#define XLA_SHMEM_HLO_PROTO_SOURCES_H_

#include <cstdint>
#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// For each instruction of the module a set of 64 bits: bit n % 64 stands for parameter n of its computation, or for
// element n of a parameter that is a tuple. Instructions that are no tuples and call a computation depend on all that
// they get.
std::vector<uint64_t> FindSources(const Module& module);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_SOURCES_H_
