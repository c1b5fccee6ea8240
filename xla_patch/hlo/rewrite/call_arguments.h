#ifndef XLA_SHMEM_HLO_REWRITE_CALL_ARGUMENTS_H_
#define XLA_SHMEM_HLO_REWRITE_CALL_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/mlir_dictionary.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// The custom calls that replace a collective. Their attributes name every participant by PE. Ranks with equal modules
// write the same bytes:
//
//   op        id of the op, different for every op of the module (channel ids are not), equal where modules are
//   module, name  for error messages
//   topology  fingerprint of the topology the PEs belong to
//   pairs     permute: source, target, source, target, ...
//   group_offsets, groups  all others: group i is groups[group_offsets[i], group_offsets[i + 1])
//   reduction  all-reduce and reduce-scatter
//   source    file:line, for error messages, if the module names it
//   on_all    1: all devices of the job run the call equally often. Only where a process has several devices
//
// In a patched XLA also, where `op` and the numbers of instructions may differ between ranks:
//
//   messages  id of the op that is equal on all ranks; several ops of a module may share it
//
// On CPU also, for ranks whose modules differ:
//
//   program   id of the module, equal where modules are
//   form, place, operand_sources, branches  CollectiveIdentity; a branch is its conditional and its number
//   part      `number`
//   contents  for error messages
//
// `spec`: name, op, participants and reduction of the call. `number`: of the calls for one collective.
MlirDictionary CallArguments(const Module& module, const Collective& collective, const Topology& topology,
                             const CollectiveSpec& spec, int64_t number);

// What every call has: `name` is the instruction's, for errors.
MlirDictionary IdentityArguments(const Module& module, const Topology& topology, uint64_t op, const std::string& name);

// PEs of devices, all of which are in the topology.
std::vector<int64_t> PesOf(const std::vector<int64_t>& devices, const Topology& topology);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_CALL_ARGUMENTS_H_
