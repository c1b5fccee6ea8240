// Large buffers of other processes in memory that this process has mapped, so that it reads them by plain loads.
//
// A preloaded library (preload/posix_memalign.cc) takes large buffers of XLA:CPU from one file in memory, which peers
// open by /proc. So a message costs one memcpy: no system call, and no page is looked up.
#ifndef XLA_SHMEM_SHM_SHARED_BUFFERS_H_
#define XLA_SHMEM_SHM_SHARED_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace xla_shmem::shm {

// Where a process has its large buffers; all zeros if no other process can map them.
struct SharedBuffersRecord {
  uint64_t device, inode;  // of the file, to recognise it
  uint64_t address;        // in that process
  uint64_t bytes;
  int32_t file;  // descriptor there
};

// Of this process; zeros without the preloaded library.
SharedBuffersRecord OwnSharedBuffers();

// Those of a peer, mapped here.
class SharedBuffers {
 public:
  // Null if the process `pid` has none, or if the system does not let this process open them.
  static std::unique_ptr<SharedBuffers> Map(const SharedBuffersRecord& record, int64_t pid);
  ~SharedBuffers();
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  // Where bytes of the peer lie here; null if they are not all in its shared buffers.
  const char* Find(const void* remote, size_t bytes) const {
    const uint64_t offset = reinterpret_cast<uint64_t>(remote) - remote_;
    return offset < bytes_ && bytes <= bytes_ - offset ? here_ + offset : nullptr;
  }

 private:
  SharedBuffers(uint64_t remote, uint64_t bytes, const char* here) : remote_(remote), bytes_(bytes), here_(here) {}

  const uint64_t remote_, bytes_;
  const char* const here_;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_SHARED_BUFFERS_H_
