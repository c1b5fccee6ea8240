#ifndef XLA_SHMEM_HLO_ANALYSIS_WORK_H_
#define XLA_SHMEM_HLO_ANALYSIS_WORK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

enum class WorkKind : uint8_t {
  kFree,        // does no work: parameters, constants, tuples and their elements, bitcasts
  kControl,     // while, call, conditional: the work is in what it calls
  kCollective,  // moves data between devices, or starts or completes that
  kCompute,     // everything else, copies included
};

// The work of one execution of an instruction.
struct Work {
  std::string_view name;
  std::string_view opcode;
  std::string_view custom_call_target;
  std::vector<int64_t> operands;  // indices into Module::instructions; -1 for an unknown id
  std::vector<int64_t> callees;   // ids of computations
  int64_t callee = -1;            // index of the first of them in Module::computations
  int64_t callee_root = -1;       // and of the instruction whose result is the callee's
  int64_t elements = 0;           // of the result, the first one of several
  int64_t result_bytes = 0;       // of all results
  WorkKind kind = WorkKind::kCompute;
  // Floating point operations: 2·M·N·K for products of matrices, 1 an element for everything elementwise
  // (transcendental functions too), for a fusion the sum of its instructions. -1 if only a library knows.
  int64_t flops = 0;
  // Bytes that an instruction outside of fusions reads and writes. Of an operand that it slices or updates in place,
  // only the slice counts. A start reads, its done writes.
  int64_t bytes = 0;
};

// Whether a custom call is attention in one kernel of cuDNN's, forward or backward.
bool IsFusedAttention(std::string_view custom_call_target);

// Counts for each of Module::instructions, by itself and once. An error if the bytes are malformed.
Result<std::vector<Work>> CountWork(const Module& module);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_ANALYSIS_WORK_H_
