// The work of one collective whose members are all PEs of this process: copies and reductions between their buffers,
// cut into chunks that any thread may run, in any order.
#ifndef XLA_SHMEM_THUNKS_CPU_IN_PROCESS_PLAN_H_
#define XLA_SHMEM_THUNKS_CPU_IN_PROCESS_PLAN_H_

#include <cstddef>
#include <vector>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

class InProcessPlan {
 public:
  struct Move {
    const char* from;
    char* to;
  };

  // Copies `bytes` by each move, as if all were read before any is written. Targets are disjoint. A target may be the
  // source of any move, exactly; it has no other overlap with one. Moves from one source read it once.
  void AddMoves(const std::vector<Move>& moves, size_t bytes);
  void AddMove(const char* from, char* to, size_t bytes);
  // Reduces the terms in their order, and writes the same bits to all results. A result may be a term, exactly; there
  // is no other overlap.
  void AddReduction(ElementType type, ReductionKind kind, const std::vector<const char*>& terms,
                    const std::vector<char*>& results, size_t bytes);

  size_t chunks() const { return chunks_.size(); }
  // Bytes that all chunks together write.
  size_t written() const { return written_; }
  // Memory that a thread uses for one chunk after the other.
  struct Scratch {
    std::vector<char> read;
    std::vector<const char*> terms;
  };
  // `is_streaming`: writes past the cache. Chunks do not touch each other's memory.
  void Run(size_t chunk, bool is_streaming, Scratch* scratch) const;

 private:
  // Part of an array below.
  struct Range {
    size_t begin, end;
    size_t size() const { return end - begin; }
  };
  // Reduces if there are terms, else copies or, if `from` is null, writes zeros.
  struct Step {
    size_t bytes;
    Range moves;
    bool reads_before_writing;
    ElementType type;
    ReductionKind kind;
    Range terms, results;
  };
  // Bytes of one step, or several whole steps, whose `end` does not count.
  struct Chunk {
    Range steps;
    size_t begin, end;
  };

  // Adds a step, in chunks of at most `chunk_bytes`. `writes`: targets of each byte.
  void Add(const Step& step, size_t chunk_bytes, size_t writes);
  void RunStep(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) const;
  void RunMoves(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) const;
  void RunReduction(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) const;

  // A small collective has many steps, so they share their arrays.
  std::vector<Move> moves_;
  std::vector<const char*> terms_;
  std::vector<char*> results_;
  std::vector<Step> steps_;
  std::vector<Chunk> chunks_;
  size_t written_ = 0;
  size_t written_by_last_chunk_ = 0;  // if it has whole steps
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_IN_PROCESS_PLAN_H_
