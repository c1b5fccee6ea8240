// POSIX shared-memory segments: one a process, holding the symmetric heaps of the PEs that live in it.
//
// A segment is named `/xla_shmem.<uid>.<job key>.<process>`, created with O_EXCL and mode 0600, fully backed when
// created (so that a full /dev/shm is an error here and not a SIGBUS later), and never followed through a symlink.
// Whoever attaches checks owner, mode, size, magic, layout version and the job key in the header before trusting a byte
// of it.
//
// Unlinking: `NoteAttached` counts the processes that mapped a segment; the last one unlinks its name, so nothing is
// left behind however the job dies after that. Before that the owner unlinks in its destructor, and `SweepStale`
// removes segments whose owner no longer runs.
#ifndef XLA_SHMEM_SHM_SEGMENT_H_
#define XLA_SHMEM_SHM_SEGMENT_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "xla_patch/shm/futex.h"

namespace xla_shmem::shm {

inline constexpr size_t kPageBytes = 4096;
inline constexpr uint64_t kSegmentMagic = 0x314d4853414c58ull;  // "XLASHM1"
inline constexpr uint32_t kSegmentVersion = 5;
inline constexpr size_t kFailureTextBytes = 1024;

// First page of every segment.
struct SegmentHeader {
  std::atomic<uint64_t> magic;  // stored last: a segment without it is still being made
  uint32_t version;
  int32_t process;
  uint64_t job_key[2];
  uint64_t bytes;
  std::atomic<int64_t>
      pid;  // stored after the next two, before the segment is backed: 0 means nobody knows whose it is yet
  uint64_t pid_start_time;  // clock ticks since boot (proc(5), field 22): tells a reused pid from the owner
  uint64_t pid_namespace;   // inode of /proc/self/ns/pid: a pid of another container says nothing about its owner
  uint64_t probe_address;   // of the job key in the owner's private memory (direct_reader.h)
  std::atomic<uint32_t> attached;
  // 0, or 1 once `failure_text` says why this process gave up (see Heap::Fail).
  std::atomic<uint32_t> failed;
  char failure_text[kFailureTextBytes];
  alignas(64) Doorbell doorbell;
};
static_assert(sizeof(SegmentHeader) <= kPageBytes);

// 128-bit random key that all processes of one job share.
struct JobKey {
  uint64_t words[2];
  static bool Parse(const std::string& hex, JobKey* key);  // exactly 32 hex digits
  std::string Hex() const;
};

class Segment {
 public:
  // Both return nullptr and fill `error` with a sentence naming segment, value and way out.
  static std::unique_ptr<Segment> Create(const JobKey& job, int process, size_t bytes, std::string* error);
  static std::unique_ptr<Segment> Attach(const JobKey& job, int process, std::string* error);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(address_); }
  char* payload() const { return static_cast<char*>(address_) + kPageBytes; }
  size_t payload_bytes() const { return bytes_ - kPageBytes; }

  // Counts this process in; unlinks the name when all `processes` have mapped the segment.
  void NoteAttached(uint32_t processes);
  void Unlink();
  // False when the process that created the segment has exited (or is a zombie). True where we cannot see its pid.
  bool OwnerAlive() const;

 private:
  Segment(std::string name, void* address, size_t bytes, bool owner);

  std::string name_;
  void* address_;
  size_t bytes_;
  bool owner_;
  JobKey probe_{};  // of an owner: what a peer that may read our memory finds there
};

std::string SegmentName(const JobKey& job, int process);

// Unlinks this user's segments whose owners are gone; other users' and live ones are left alone. Returns how many.
int SweepStale();

// Inode of this process's pid namespace, 0 where /proc does not tell.
uint64_t PidNamespace();

// Asks Yama (where it restricts ptrace to children) to let other processes of this user read our memory, or takes that
// back.
void PermitReaders(bool permitted);

// Start time of `pid` in clock ticks since boot, 0 if there is no such process or it is a zombie.
uint64_t ProcessStartTime(pid_t pid);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_SEGMENT_H_
