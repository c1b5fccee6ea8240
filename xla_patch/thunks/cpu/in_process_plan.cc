#include "xla_patch/thunks/cpu/in_process_plan.h"

#include <string.h>

#include <algorithm>

#include "xla_patch/shm/copy.h"
#include "xla_patch/thunks/reduction.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

// A copy's chunk writes about as much, and a chunk of a reduction, or of moves that need a buffer, has as much of each
// source and result. Its sources should stay in a core's cache.
constexpr size_t kCopiedBytes = 256 << 10;
constexpr size_t kCachedBytes = 32 << 10;
// Whole steps that write no more than this together are one chunk.
constexpr size_t kTogetherBytes = 32 << 10;

}  // namespace

void InProcessPlan::AddMoves(const std::vector<Move>& moves, size_t bytes) {
  Step step{};
  step.moves.begin = moves_.size();
  for (const Move& move : moves) {
    if (move.from != move.to) moves_.push_back(move);
  }
  step.moves.end = moves_.size();
  const auto begin = moves_.begin() + static_cast<std::ptrdiff_t>(step.moves.begin);
  step.reads_before_writing = std::any_of(begin, moves_.end(), [&](const Move& writer) {
    return std::any_of(begin, moves_.end(), [&](const Move& reader) { return writer.to == reader.from; });
  });
  if (bytes == 0 || step.moves.size() == 0) return;
  step.bytes = bytes;
  const size_t source_bytes = std::max(kCachedBytes, kCopiedBytes / step.moves.size() / kCachedBytes * kCachedBytes);
  Add(step, step.reads_before_writing ? kCachedBytes : source_bytes, step.moves.size());
}

void InProcessPlan::AddMove(const char* from, char* to, size_t bytes) {
  if (from == to || bytes == 0) return;
  Step step{};
  step.bytes = bytes;
  step.moves = {moves_.size(), moves_.size() + 1};
  moves_.push_back({from, to});
  Add(step, kCopiedBytes, 1);
}

void InProcessPlan::AddReduction(ElementType type, ReductionKind kind, const std::vector<const char*>& terms,
                                 const std::vector<char*>& results, size_t bytes) {
  if (bytes == 0) return;
  Step step{};
  step.bytes = bytes;
  step.type = type;
  step.kind = kind;
  step.terms = {terms_.size(), terms_.size() + terms.size()};
  step.results = {results_.size(), results_.size() + results.size()};
  terms_.insert(terms_.end(), terms.begin(), terms.end());
  results_.insert(results_.end(), results.begin(), results.end());
  Add(step, kCachedBytes, results.size());
}

void InProcessPlan::Add(const Step& step, size_t chunk_bytes, size_t writes) {
  const size_t number = steps_.size(), writes_bytes = step.bytes * writes;
  steps_.push_back(step);
  written_ += writes_bytes;
  if (number > 0 && step.bytes <= chunk_bytes && written_by_last_chunk_ + writes_bytes <= kTogetherBytes) {
    ++chunks_.back().steps.end;
    written_by_last_chunk_ += writes_bytes;
    return;
  }
  for (size_t begin = 0; begin < step.bytes; begin += chunk_bytes) {
    chunks_.push_back({{number, number + 1}, begin, std::min(begin + chunk_bytes, step.bytes)});
  }
  written_by_last_chunk_ = step.bytes <= chunk_bytes ? writes_bytes : kTogetherBytes;
}

void InProcessPlan::Run(size_t chunk, bool is_streaming, Scratch* scratch) const {
  XLA_SHMEM_INVARIANT(chunk, <, chunks_.size());
  const auto& [steps, begin, end] = chunks_[chunk];
  RunStep(steps_[steps.begin], begin, end - begin, is_streaming, scratch);
  for (size_t i = steps.begin + 1; i < steps.end; ++i) RunStep(steps_[i], 0, steps_[i].bytes, is_streaming, scratch);
}

void InProcessPlan::RunStep(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) const {
  step.terms.size() == 0 ? RunMoves(step, begin, bytes, is_streaming, scratch)
                         : RunReduction(step, begin, bytes, is_streaming, scratch);
}

void InProcessPlan::RunMoves(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) const {
  const Move* const moves = &moves_[step.moves.begin];
  std::vector<char>& read = scratch->read;
  if (step.reads_before_writing) {
    read.resize(step.moves.size() * bytes);
    for (size_t i = 0; i < step.moves.size(); ++i) {
      if (moves[i].from != nullptr) memcpy(&read[i * bytes], moves[i].from + begin, bytes);
    }
  }
  const auto copy = is_streaming ? shm::CopyStreaming : shm::Copy;
  for (size_t i = 0; i < step.moves.size(); ++i) {
    const auto& [from, to] = moves[i];
    if (from == nullptr) {
      memset(to + begin, 0, bytes);
    } else {
      copy(to + begin, step.reads_before_writing ? &read[i * bytes] : from + begin, bytes);
    }
  }
}

void InProcessPlan::RunReduction(const Step& step, size_t begin, size_t bytes, bool is_streaming,
                                 Scratch* scratch) const {
  std::vector<const char*>& terms = scratch->terms;
  terms.clear();
  for (size_t i = step.terms.begin; i < step.terms.end; ++i) terms.push_back(terms_[i] + begin);
  char* const first = results_[step.results.begin] + begin;
  Reduce(step.type, step.kind, terms.data(), terms.size(), bytes / ElementBytes(step.type), first);
  const auto copy = is_streaming ? shm::CopyStreaming : shm::Copy;
  for (size_t i = step.results.begin + 1; i < step.results.end; ++i) copy(results_[i] + begin, first, bytes);
}

}  // namespace xla_shmem
