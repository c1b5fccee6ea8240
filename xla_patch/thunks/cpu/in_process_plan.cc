#include "xla_patch/thunks/cpu/in_process_plan.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "xla_patch/shm/copy.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

// Of each source and result. A chunk of a reduction, or of moves that need a buffer, should stay in a core's cache.
constexpr size_t kCopiedBytes = 256 << 10;
constexpr size_t kCachedBytes = 32 << 10;

}  // namespace

void InProcessPlan::Copy(std::vector<Move> moves, size_t bytes) {
  moves.erase(std::remove_if(moves.begin(), moves.end(), [](const Move& move) { return move.from == move.to; }),
              moves.end());
  if (moves.empty() || bytes == 0) return;
  Step step;
  step.reads_before_writing = std::any_of(moves.begin(), moves.end(), [&](const Move& writer) {
    return std::any_of(moves.begin(), moves.end(), [&](const Move& reader) { return writer.to == reader.from; });
  });
  const size_t writes = moves.size();
  step.moves = std::move(moves);
  const size_t chunk_bytes = step.reads_before_writing ? kCachedBytes : kCopiedBytes;
  steps_.push_back(std::move(step));
  AddChunks(bytes, chunk_bytes, writes);
}

void InProcessPlan::Zero(char* to, size_t bytes) { Copy({{nullptr, to}}, bytes); }

void InProcessPlan::Reduce(ElementType type, ReductionKind kind, std::vector<const char*> terms,
                           std::vector<char*> results, size_t bytes) {
  if (bytes == 0) return;
  Step step;
  step.type = type;
  step.kind = kind;
  const size_t writes = results.size();
  step.terms = std::move(terms);
  step.results = std::move(results);
  steps_.push_back(std::move(step));
  AddChunks(bytes, kCachedBytes, writes);
}

void InProcessPlan::AddChunks(size_t bytes, size_t chunk_bytes, size_t writes) {
  for (size_t begin = 0; begin < bytes; begin += chunk_bytes) {
    chunks_.push_back({steps_.size() - 1, begin, std::min(begin + chunk_bytes, bytes)});
  }
  written_ += bytes * writes;
}

void InProcessPlan::Run(size_t chunk, bool is_streaming, Scratch* scratch) const {
  const auto [number, begin, end] = chunks_[chunk];
  const Step& step = steps_[number];
  step.terms.empty() ? RunMoves(step, begin, end - begin, is_streaming, scratch)
                     : RunReduction(step, begin, end - begin, is_streaming, scratch);
}

void InProcessPlan::RunMoves(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) {
  std::vector<char>& read = scratch->read;
  if (step.reads_before_writing) {
    read.resize(step.moves.size() * bytes);
    for (size_t i = 0; i < step.moves.size(); ++i) {
      if (step.moves[i].from != nullptr) memcpy(&read[i * bytes], step.moves[i].from + begin, bytes);
    }
  }
  const auto copy = is_streaming ? shm::CopyStreaming : shm::Copy;
  for (size_t i = 0; i < step.moves.size(); ++i) {
    const auto& [from, to] = step.moves[i];
    if (from == nullptr) {
      memset(to + begin, 0, bytes);
    } else {
      copy(to + begin, step.reads_before_writing ? &read[i * bytes] : from + begin, bytes);
    }
  }
}

void InProcessPlan::RunReduction(const Step& step, size_t begin, size_t bytes, bool is_streaming, Scratch* scratch) {
  std::vector<const char*>& terms = scratch->terms;
  terms.assign(step.terms.begin(), step.terms.end());
  for (const char*& term : terms) term += begin;
  char* const first = step.results[0] + begin;
  xla_shmem::Reduce(step.type, step.kind, terms.data(), terms.size(), bytes / ElementBytes(step.type), first);
  const auto copy = is_streaming ? shm::CopyStreaming : shm::Copy;
  for (size_t i = 1; i < step.results.size(); ++i) copy(step.results[i] + begin, first, bytes);
}

}  // namespace xla_shmem
