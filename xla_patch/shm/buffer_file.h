// Large buffers in one file in memory, which other processes can map (shared_buffers.h).
#ifndef XLA_SHMEM_SHM_BUFFER_FILE_H_
#define XLA_SHMEM_SHM_BUFFER_FILE_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace xla_shmem::shm {

// What the preloaded library (preload/posix_memalign.cc) tells the rest of its process about its file.
struct BufferFilePlace {
  int descriptor;
  void* address;  // where all of it is mapped
  size_t bytes;
};
// Looked up by name, because the library may be absent. False if there is no file; the first call may make it.
using FindBufferFile = bool (*)(BufferFilePlace* place);
inline constexpr char kFindBufferFile[] = "xla_shmem_find_buffer_file";

// An allocator of whole pages. All it knows about buffers lies in private memory. Thread-safe.
//
// Freed pages stay, so that the next run finds them, as long as the file takes no more memory than its buffers took at
// a time in this period or the one before, and 64 MiB. What exceeds this goes back to the system, the highest first.
class BufferFile {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kSpareBytes = 64 << 20;

  // A file of so many bytes, which takes memory only where it is written. Null if the system has none.
  static std::unique_ptr<BufferFile> Create(size_t bytes, std::chrono::nanoseconds period = std::chrono::seconds(10));
  ~BufferFile();
  BufferFile(const BufferFile&) = delete;
  BufferFile& operator=(const BufferFile&) = delete;

  // Null if there is no room, and in a forked child. Buffers begin at pages.
  void* Allocate(size_t bytes);
  // `buffer`: from Allocate.
  void Free(void* buffer);
  // Bytes that the buffer has.
  size_t BytesOf(const void* buffer);
  bool Has(const void* address) const { return address >= base_ && address < base_ + bytes_; }

  // A forked child's copy, which nobody else can map.
  bool is_in_child() const { return is_in_child_; }
  int descriptor() const { return descriptor_; }
  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // Of buffers, and of pages that are or were in one and have not gone back to the system.
  size_t used() const { return used_; }
  size_t resident() const { return resident_; }

  // Around fork(2). The child gets a private copy of what it writes, so its parent's buffers stay as they are.
  void BeforeFork() { mutex_.lock(); }
  void AfterForkInParent() { mutex_.unlock(); }
  void AfterForkInChild();

 private:
  using Clock = std::chrono::steady_clock;
  using Ranges = std::map<size_t, size_t>;  // end by begin, disjoint and not adjacent

  BufferFile(int descriptor, char* base, size_t bytes, std::chrono::nanoseconds period);
  void AddFree(size_t begin, size_t end);
  void RemoveFree(size_t begin, size_t end);
  // The pages will take memory. Returns how many bytes of them took none.
  size_t Touch(size_t begin, size_t end);
  // The last pages in a range that take memory: none if begin and end are equal.
  std::pair<size_t, size_t> LastTouched(size_t begin, size_t end) const;
  // The pages take none again.
  void AddUntouched(size_t begin, size_t end);
  size_t Kept(Clock::time_point now);
  void GiveBack(size_t bytes);

  const int descriptor_;
  char* const base_;
  const size_t bytes_;
  const std::chrono::nanoseconds period_;
  bool is_in_child_ = false;

  std::mutex mutex_;
  std::map<size_t, size_t> buffers_;              // bytes by begin
  Ranges free_;                                   // no buffer's
  std::set<std::pair<size_t, size_t>> by_bytes_;  // the same: bytes and begin
  Ranges untouched_;                              // pages that take no memory
  size_t used_ = 0, resident_ = 0;
  Clock::time_point period_end_;
  size_t peak_ = 0, peak_before_ = 0;  // of `used_` in this period and in the one before
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_BUFFER_FILE_H_
