// POSIX shared-memory segments. A process has one, which holds the symmetric heaps of its PEs.
//
// A segment is named `/xla_shmem.<uid>.<key>.<process>` and created with O_EXCL and mode 0600. Half the key is random
// and told to nobody before the segment exists, so that no other user can take the name. All its memory is allocated at
// once, so that a full /dev/shm is an error and not a SIGBUS later. No symlink is followed. A process that attaches
// checks owner, mode, size, magic, layout version and the key in the header before it uses the rest.
//
// Unlinking: `NoteAttached` counts the processes that have mapped a segment. The last one unlinks the name, so nothing
// is left behind if the job dies later. Before that the owner unlinks it in its destructor, and `SweepStale` removes
// segments whose owner no longer runs.
#ifndef XLA_SHMEM_SHM_SEGMENT_H_
#define XLA_SHMEM_SHM_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "xla_patch/shm/futex.h"
#include "xla_patch/shm/job_key.h"
#include "xla_patch/shm/process_identity.h"
#include "xla_patch/shm/shared_buffers.h"
#include "xla_patch/shm/shared_text.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::shm {

inline constexpr size_t kPageBytes = 4096;
inline constexpr uint64_t kSegmentMagic = 0x314d4853414c58ull;  // "XLASHM1"
inline constexpr uint32_t kSegmentVersion = 9;
inline constexpr size_t kFailureTextBytes = 1024;

// What a process says about the job, in SegmentHeader::failed.
enum FailureState : uint32_t {
  kNotFailed = 0,
  kFailed = 1,     // it gave up first, and `failure_text` says why
  kFailing = 2,    // as kFailed, and `failure_text` is not complete yet
  kFollowing = 3,  // it gave up because another process had failed, whose text says why
};

// For whom the pending operations of a process wait (late_processes.h).
struct WaitRecord {
  static constexpr int kPes = 1024;  // PEs with higher numbers are left out
  std::atomic<int64_t> looked_ns;    // when its engine last looked, on the steady clock; 0: no operation is pending
  std::atomic<uint64_t> pes[kPes / 64];
  SharedText in;  // the operation that has waited longest
};

// Another process asks the owner what it does (inquiry.h).
struct InquiryRecord {
  std::atomic<uint32_t> questions;  // asked so far
  std::atomic<uint32_t> answered;   // the last question that `answer` answers
  SharedText answer;
};

// First page of every segment.
struct SegmentHeader {
  std::atomic<uint64_t> magic;  // stored last: a segment without it is not complete
  uint32_t version;
  int32_t process;
  uint64_t job_key[2];
  uint64_t bytes;
  // Of the owner. Stored after the next two fields and before the memory is allocated; 0: not known yet.
  std::atomic<int64_t> pid;
  uint64_t pid_start_time;  // clock ticks since boot (proc(5), field 22), to recognise a reused pid
  uint64_t pid_namespace;   // inode of /proc/self/ns/pid, because a pid has no meaning in another container
  uint64_t probe_address;   // of the job key in the owner's private memory (cross_memory_reader.h)
  SharedBuffersRecord shared_buffers;
  std::atomic<uint32_t> attached;
  // A FailureState. A process sets it before it lets go of memory that others may still read.
  std::atomic<uint32_t> failed;
  char failure_text[kFailureTextBytes];
  // 1: the owner has come to the end of its program, and begins no further collective.
  std::atomic<uint32_t> at_end;
  WaitRecord waits;
  InquiryRecord inquiry;
  alignas(64) Doorbell doorbell;
  Doorbell inquiry_bell;
};
static_assert(sizeof(SegmentHeader) <= kPageBytes);

class Segment {
 public:
  static Result<std::unique_ptr<Segment>> Create(const JobKey& job, int process, size_t bytes);
  static Result<std::unique_ptr<Segment>> Attach(const JobKey& job, int process);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(address_); }
  char* payload() const { return static_cast<char*>(address_) + kPageBytes; }
  size_t payload_bytes() const { return bytes_ - kPageBytes; }

  // Counts this process as attached. Unlinks the name when all `processes` have mapped the segment.
  void NoteAttached(uint32_t processes);
  void Unlink();
  // The state of the process that created the segment; kRuns if its pid is not visible here.
  ProcessState OwnerState() const;

 private:
  Segment(std::string name, void* address, size_t bytes, bool owner);

  std::string name_;
  void* address_;
  size_t bytes_;
  bool owner_;
  JobKey probe_{};  // of an owner: peers read it to test whether they may read this process's memory
};

std::string SegmentName(const JobKey& job, int process);
// Removes the name of the segment, if it still has one.
void UnlinkSegment(const JobKey& job, int process);

// Unlinks this user's segments whose owners have exited. Returns how many.
int SweepStale();

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_SEGMENT_H_
