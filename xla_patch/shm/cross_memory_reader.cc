#include "xla_patch/shm/cross_memory_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>

#include "xla_patch/shm/copy.h"
#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/shm/process_identity.h"

namespace xla_shmem::shm {
namespace {

using Outcome = CrossMemoryReader::Outcome;

Outcome ReadProcess(pid_t pid, const RemotePiece* pieces, size_t count) {
  constexpr size_t kBatch = 64;
  std::array<iovec, kBatch> local, remote;
  size_t done = 0;  // bytes of pieces[0]
  while (count > 0) {
    const size_t batch = std::min(count, kBatch);
    for (size_t i = 0; i < batch; ++i) {
      const size_t skip = i == 0 ? done : 0;
      local[i] = {static_cast<char*>(pieces[i].local) + skip, pieces[i].bytes - skip};
      remote[i] = {const_cast<char*>(static_cast<const char*>(pieces[i].remote)) + skip, pieces[i].bytes - skip};
    }
    const ssize_t got = process_vm_readv(pid, local.data(), batch, remote.data(), batch, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == ESRCH ? Outcome::kGone : Outcome::kRefused;
    // After a partial read the loop asks for the rest again; the second call then returns the reason.
    size_t left = static_cast<size_t>(got);
    if (left == 0) return Outcome::kRefused;
    while (count > 0 && left >= pieces->bytes - done) {
      left -= pieces->bytes - done;
      done = 0;
      ++pieces;
      --count;
    }
    done += left;
  }
  return Outcome::kDone;
}

// Reads by plain loads, or nothing if a piece does not lie in the shared buffers.
bool ReadShared(const SharedBuffers* shared, const RemotePiece* pieces, size_t count, decltype(&Copy) copy) {
  if (shared == nullptr) return false;
  const auto is_shared = [&](const RemotePiece& piece) { return shared->Find(piece.remote, piece.bytes) != nullptr; };
  if (!std::all_of(pieces, pieces + count, is_shared)) return false;
  for (size_t i = 0; i < count; ++i) {
    copy(pieces[i].local, shared->Find(pieces[i].remote, pieces[i].bytes), pieces[i].bytes);
  }
  return true;
}

pid_t PidOf(const SegmentHeader& header) { return static_cast<pid_t>(header.pid.load(std::memory_order_acquire)); }

bool Permitted(const SegmentHeader& header) {
  if (header.pid_namespace != PidNamespace()) return false;
  uint64_t key[2] = {0, 0};
  const RemotePiece piece{reinterpret_cast<const void*>(header.probe_address), key, sizeof(key)};
  return ReadProcess(PidOf(header), &piece, 1) == Outcome::kDone && key[0] == header.job_key[0] &&
         key[1] == header.job_key[1];
}

}  // namespace

CrossMemoryReader::CrossMemoryReader(const Heap* heap, SingleCopy single_copy) : heap_(heap) {
  std::map<int, bool> permitted;  // by process
  for (int pe = 0; pe < heap->n_pes(); ++pe) {
    bool reads = false;
    if (single_copy != SingleCopy::kOff && heap->IsLocal(pe)) {
      reads = true;
    } else if (single_copy != SingleCopy::kOff && heap->Reaches(pe)) {
      const auto [verdict, is_new] = permitted.emplace(heap->ProcessOf(pe), false);
      if (is_new) {
        const SegmentHeader& header = heap->HeaderOf(pe);
        std::unique_ptr<SharedBuffers> shared = SharedBuffers::Map(header.shared_buffers, PidOf(header));
        verdict->second = Permitted(header) || shared != nullptr;
        shared_.emplace(heap->ProcessOf(pe), std::move(shared));
      }
      reads = verdict->second;
    }
    reads_.push_back(reads);
    has_shared_buffers_.push_back(heap->Reaches(pe) && heap->HeaderOf(pe).shared_buffers.bytes != 0);
  }
}

bool CrossMemoryReader::HaveSharedBuffers(const std::vector<int>& pes) const {
  return std::all_of(pes.begin(), pes.end(), [this](int pe) { return has_shared_buffers_[pe]; });
}

Outcome CrossMemoryReader::Read(int pe, const RemotePiece* pieces, size_t count, bool past_cache) const {
  const ScopedCopyTimer timer;
  const auto copy = past_cache ? CopyStreaming : Copy;
  if (heap_->IsLocal(pe)) {
    for (size_t i = 0; i < count; ++i) copy(pieces[i].local, pieces[i].remote, pieces[i].bytes);
    return Outcome::kDone;
  }
  const SharedBuffers* const shared = shared_.at(heap_->ProcessOf(pe)).get();
  const Outcome outcome =
      ReadShared(shared, pieces, count, copy) ? Outcome::kDone : ReadProcess(PidOf(heap_->HeaderOf(pe)), pieces, count);
  return outcome == Outcome::kDone && !IsIntact(pe) ? Outcome::kGone : outcome;
}

const char* CrossMemoryReader::Find(int pe, const void* remote, size_t bytes) const {
  if (heap_->IsLocal(pe)) return static_cast<const char*>(remote);
  const auto shared = shared_.find(heap_->ProcessOf(pe));
  return shared == shared_.end() || shared->second == nullptr ? nullptr : shared->second->Find(remote, bytes);
}

bool CrossMemoryReader::IsIntact(int pe) const {
  if (heap_->IsLocal(pe)) return true;
  // A process that fails sets `failed` before it frees its operands, so bytes that were read later may be wrong. All
  // were read before this load: a system call orders them, or the fence.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return heap_->HeaderOf(pe).failed.load(std::memory_order_seq_cst) == kNotFailed;
}

}  // namespace xla_shmem::shm
