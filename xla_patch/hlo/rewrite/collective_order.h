#ifndef XLA_SHMEM_HLO_REWRITE_COLLECTIVE_ORDER_H_
#define XLA_SHMEM_HLO_REWRITE_COLLECTIVE_ORDER_H_

#include <string>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Makes XLA:CPU run the collectives of a module one after the other, in the order of its schedule, on all ranks.
//
// XLA:CPU does so with its own collectives. Custom calls run as soon as their operands are there, in an order that
// differs from rank to rank. If each keeps its thread until it has finished, two ranks can wait for each other forever.
//
// For XLA:CPU only the data counts. So an operand of each collective, and of each loop, branch or call with collectives
// in it, first goes through an xla_shmem.after call. This call also takes the result of the collective before, and
// returns the operand in its own buffer. None is needed where both collectives are XLA's, or where the second one
// computes with the result of the first.
//
// Returns the new module, empty if it has no collective of ours or is in order already. An error if a loop, branch or
// call has no operand or result to order it by.
Result<std::string> OrderCollectives(const Module& module, const DeviceAssignment& assignment);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_COLLECTIVE_ORDER_H_
