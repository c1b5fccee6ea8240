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

// An all-to-all that takes and gives whole arrays.
//
// XLA:CPU writes the all-to-all of an array as slices, an all-to-all of them, and a concatenation: every byte is copied
// twice beside what crosses. Parts along the most major dimension lie one after the other in memory anyway, so one call
// can read them where they are, and write them to where they are wanted.
struct WholeArrays {
  std::vector<int64_t> operands;             // the array that was sliced, or the operands as they were
  size_t place = 0;                          // the instruction that the call replaces: the concatenate, or itself
  std::vector<size_t> removed;               // what is no longer needed, the collective included unless it is `place`
  std::vector<size_t> removed_computations;  // of fusions among them
};

// Finds them in a module, whose instructions it looks at once for each computation.
class WholeArrayFinder {
 public:
  explicit WholeArrayFinder(const Module& module) : module_(module) {}

  // Nothing if neither side of `collective` can be made whole, or if that is not known to be safe: buffers are shared
  // by an order of events that XLA has settled before, so while the array is read later than it was, and until the call
  // is done, nothing may run that could write over it.
  std::optional<WholeArrays> Find(const Collective& collective);

 private:
  // Who is who in a computation.
  struct Relations {
    std::unordered_map<int64_t, size_t> index;               // by id, in Module::instructions
    std::unordered_map<int64_t, std::vector<size_t>> users;  // by id, an entry for each use
    std::unordered_set<int64_t> controlling;                 // ids that others have to wait for without using them
    std::vector<int64_t> sequence;                           // as scheduled
    std::unordered_map<int64_t, size_t> turn;                // by id, in `sequence`
    bool is_sound = false;
  };

  const Relations& RelationsOf(size_t computation);
  // The only user of an instruction that nothing but data ties to others, and that is not the computation's root.
  std::optional<size_t> OnlyUser(const Relations& relations, const Computation& computation, size_t instruction) const;
  bool FindOperand(const Relations& relations, const Collective& collective, WholeArrays* whole) const;
  bool FindResult(const Relations& relations, const Collective& collective, WholeArrays* whole) const;
  bool IsSafe(const Relations& relations, const Collective& collective, const WholeArrays& whole) const;

  const Module& module_;
  std::map<size_t, Relations> relations_;
};

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_ALL_TO_ALL_FOLDING_H_
