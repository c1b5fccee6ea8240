// The programs that a process has loaded, as its flight record has them, and how the copies of two processes differ.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_LOADED_PROGRAMS_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_LOADED_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/runtime/observe/ring_reader.h"

namespace xla_shmem::observe {

// Sites belong to the record from which it was made.
struct LoadedProgram {
  uint64_t id = 0;  // Origin::program
  uint64_t form = 0;
  // The collectives that xla-shmem carries, by place and part.
  std::map<std::pair<uint32_t, uint32_t>, const Site*> sites;
};

// In the order in which they were loaded, without those of GPUs, which have no ids.
std::vector<LoadedProgram> ProgramsOf(const RecordOfProcess& record);

// Null if it is not among them.
const LoadedProgram* Find(const std::vector<LoadedProgram>& programs, uint64_t id);

// "all-reduce jit_f/psum.3 (sum f32[8]) at train.py:9"; with its groups or pairs on request.
std::string NameSite(const Site& site, bool with_groups = false);

// ": collective 2 of process 0 is ..., of process 1 ...": the first in which they differ; "" if the records have none.
std::string DescribeFirstDifference(int process, const LoadedProgram& program, int other_process,
                                    const LoadedProgram& other);

// Of two programs with equal collectives: an operand of one whose inputs go to another, that looks alike, in the other
// program, and the reverse. Then data that do not belong together would meet. "" if none are exchanged so. Where one
// operand has all inputs of the other and more, a rank may have left out a part by a constant.
std::string DescribeExchange(int process, const LoadedProgram& program, int other_process, const LoadedProgram& other);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_LOADED_PROGRAMS_H_
