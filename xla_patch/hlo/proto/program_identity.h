// What copies of a program that differ between ranks have in common (docs/design.md, "Matching messages").
#ifndef XLA_SHMEM_HLO_PROTO_PROGRAM_IDENTITY_H_
#define XLA_SHMEM_HLO_PROTO_PROGRAM_IDENTITY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// Sets `identity` of all collectives of the module, which are those that FindCollectives has found. Returns the form.
// `places`: of each the instruction in whose place it runs; XLA:CPU may run them strictly in the order of the schedule.
uint64_t IdentifyCollectives(const Module& module, const std::vector<size_t>& places,
                             std::vector<Collective>* collectives);

// What it moves, for people: "f32[8]", "sum f32[8]". With the layout if it is not row by row.
std::string DescribeContents(const Collective& collective);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_PROGRAM_IDENTITY_H_
