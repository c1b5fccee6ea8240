#include "xla_patch/nvshmem/host/direct_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "xla_patch/nvshmem/host/copy.h"
#include "xla_patch/nvshmem/host/huge_pages.h"
#include "xla_patch/nvshmem/host/moves.h"

namespace xla_shmem::host {
namespace {

using Outcome = DirectReader::Outcome;

Outcome ReadProcess(pid_t pid, const DirectPiece* pieces, size_t count) {
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
    // Fewer bytes than asked for: the rest is asked for again, and says then why it does not come.
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

pid_t PidOf(const SegmentHeader& header) { return static_cast<pid_t>(header.pid.load(std::memory_order_acquire)); }

bool Permitted(const SegmentHeader& header) {
  if (header.pid_namespace != PidNamespace()) return false;
  uint64_t key[2] = {0, 0};
  const DirectPiece piece{reinterpret_cast<const void*>(header.probe_address), key, sizeof(key)};
  return ReadProcess(PidOf(header), &piece, 1) == Outcome::kDone && key[0] == header.job_key[0] &&
         key[1] == header.job_key[1];
}

// Whether one read by the kernel takes less than `share` of the two copies of a staged message. A few times: a
// millisecond or two once in the life of a job.
bool WorthIt(const SegmentHeader& header, uint64_t probe_address, size_t bytes, double share) {
  using Clock = std::chrono::steady_clock;
  const auto from = PageAligned(bytes), slot = PageAligned(bytes), to = PageAligned(bytes);
  if (from == nullptr || slot == nullptr || to == nullptr) return false;
  memset(from.get(), 1, bytes);
  memset(slot.get(), 1, bytes);
  memset(to.get(), 1, bytes);
  const DirectPiece piece{reinterpret_cast<const void*>(probe_address), to.get(), bytes};
  auto direct = Clock::duration::max(), staged = Clock::duration::max();
  for (int turn = 0; turn < 5; ++turn) {
    const Clock::time_point start = Clock::now();
    if (ReadProcess(PidOf(header), &piece, 1) != Outcome::kDone) return false;
    const Clock::time_point middle = Clock::now();
    memcpy(slot.get(), from.get(), bytes);
    asm volatile("" ::: "memory");  // both copies are wanted
    memcpy(to.get(), slot.get(), bytes);
    asm volatile("" ::: "memory");
    direct = std::min(direct, middle - start);
    staged = std::min(staged, Clock::now() - middle);
  }
  return direct < staged * share;
}

DirectReads FindOut(const SegmentHeader& header, SingleCopy single_copy) {
  if (!Permitted(header)) return DirectReads::kNone;
  if (single_copy == SingleCopy::kAlways) return DirectReads::kAll;
  if (single_copy == SingleCopy::kHugePages) return DirectReads::kHugePages;
  // Clearly less where pages are small: of two that are close here staging wins for larger messages, whose second copy
  // still hides in the cache. Out of huge pages the kernel copies as fast as anybody, whatever the size.
  if (WorthIt(header, header.probe_address, kProbeBytes, 0.8)) return DirectReads::kAll;
  const uint64_t huge = header.huge_probe_address;
  return huge != 0 && WorthIt(header, huge, kHugePageBytes, 1.0) ? DirectReads::kHugePages : DirectReads::kNone;
}

}  // namespace

DirectReader::DirectReader(const Heap* heap, SingleCopy single_copy) : heap_(heap) {
  std::map<int, DirectReads> verdicts;  // by process
  for (int pe = 0; pe < heap->n_pes(); ++pe) {
    DirectReads reads = DirectReads::kNone;
    if (single_copy != SingleCopy::kOff && heap->IsLocal(pe)) {
      reads = DirectReads::kAll;
    } else if (single_copy != SingleCopy::kOff && heap->Reaches(pe)) {
      const auto [verdict, is_new] = verdicts.emplace(heap->ProcessOf(pe), DirectReads::kNone);
      if (is_new) verdict->second = FindOut(heap->HeaderOf(pe), single_copy);
      reads = verdict->second;
    }
    reads_.push_back(reads);
  }
}

Outcome DirectReader::Read(int pe, const DirectPiece* pieces, size_t count) const {
  const Move move;
  if (heap_->IsLocal(pe)) {
    for (size_t i = 0; i < count; ++i) Copy(pieces[i].local, pieces[i].remote, pieces[i].bytes);
    return Outcome::kDone;
  }
  const SegmentHeader& header = heap_->HeaderOf(pe);
  const Outcome outcome = ReadProcess(PidOf(header), pieces, count);
  // A process that gives up says so before it lets go of its operands: bytes read after that may be anything. The
  // system call lies between our reads and this look.
  return outcome == Outcome::kDone && header.failed.load(std::memory_order_seq_cst) != 0 ? Outcome::kGone : outcome;
}

}  // namespace xla_shmem::host
