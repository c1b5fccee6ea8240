#ifndef XLA_SHMEM_HLO_REWRITE_ALL_TO_ALL_FOLDING_H_
#define XLA_SHMEM_HLO_REWRITE_ALL_TO_ALL_FOLDING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// An all-to-all whose operand, result or both are whole arrays.
//
// XLA:CPU writes the all-to-all of an array as slices, an all-to-all of them, and a concatenation: two local copies of
// every byte. Parts along the most major dimension lie one after the other in memory, so one call can read them in the
// operand and write them to the result.
struct WholeArrays {
  std::vector<int64_t> operands;             // the array that was sliced, or the operands as they were
  size_t place = 0;                          // the instruction that the call replaces: the concatenate, or itself
  std::vector<size_t> removed;               // instructions that go, the collective included unless it is `place`
  std::vector<size_t> removed_computations;  // of fusions among them
};

// Finds them in a module. Reads the instructions of each computation once.
class WholeArrayFinder {
 public:
  explicit WholeArrayFinder(const Module& module) : module_(module) {}

  // None if neither operand nor result of `collective` can be a whole array, or if that is not certain to be safe: XLA
  // assigned buffers for the old order of instructions. The call reads the array later than the slices did, so no
  // instruction that could write over it may run before the call has finished.
  std::optional<WholeArrays> Find(const Collective& collective);

 private:
  // The uses of a computation's instructions.
  struct Relations {
    std::unordered_map<int64_t, size_t> index;               // by id, in Module::instructions
    std::unordered_map<int64_t, std::vector<size_t>> users;  // by id, an entry for each use
    std::unordered_set<int64_t> controlling;                 // ids that are control predecessors
    std::vector<int64_t> sequence;                           // as scheduled
    std::unordered_map<int64_t, size_t> turn;                // by id, in `sequence`
    bool is_sound = false;
  };

  const Relations& RelationsOf(size_t computation);
  // The only user of an instruction. None if the instruction is the root or a control predecessor.
  std::optional<size_t> OnlyUser(const Relations& relations, const Computation& computation, size_t instruction) const;
  bool FindOperand(const Relations& relations, const Collective& collective, WholeArrays* whole) const;
  bool FindResult(const Relations& relations, const Collective& collective, WholeArrays* whole) const;
  bool IsSafe(const Relations& relations, const Collective& collective, const WholeArrays& whole) const;

  const Module& module_;
  std::map<size_t, Relations> relations_;
};

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_ALL_TO_ALL_FOLDING_H_
