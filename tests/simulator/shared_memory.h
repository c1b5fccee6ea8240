// The memory of a run: segments that all simulated processes map, and private memory that says when it is used late.
//
// Private memory is what the code under test and its buffers take from operator new. Memory that was given back is
// never given out again in the run. Whole pages of it cannot be accessed any more; less is filled with a pattern. Other
// processes may have whole pages mapped (shm/shared_buffers.h), where they read zeros from then on.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_SHARED_MEMORY_H_
#define XLA_SHMEM_TESTS_SIMULATOR_SHARED_MEMORY_H_

#include <cstddef>
#include <map>
#include <string>

namespace xla_shmem::simulator {

// While one exists, operator new and delete are the simulator's own.
class OwnCode {
 public:
  OwnCode() { ++depth_; }
  ~OwnCode() { --depth_; }
  OwnCode(const OwnCode&) = delete;
  OwnCode& operator=(const OwnCode&) = delete;
  static int depth() { return depth_; }
  // Of the thread that runs from now on.
  static void SetDepth(int depth) { depth_ = depth; }

 private:
  static int depth_;
};

class SharedMemory {
 public:
  static SharedMemory& Get();

  // Zeroed memory of the segment of `process`. All processes have it at one address.
  char* TakeSegment(int process, size_t bytes);
  static bool Contains(const void* address) { return address >= begin_ && address < end_; }
  // "byte 64 of the segment of process 1".
  std::string Describe(const void* address) const;

  // Private memory of whole pages.
  void* TakePages(size_t bytes);
  // All that TakePages gives out lies from `own` on, and other processes have it at `others`.
  struct Pages {
    char* own;
    char* others;
    size_t bytes;
  };
  const Pages& pages();
  void GiveBackPages(void* address, size_t bytes);
  // A later access to private memory that was given back, or to none at all, fails the run with a sentence.
  void CatchBadAccesses();
  // Whether all of it is memory in use.
  bool IsReadable(const void* address, size_t bytes) const;

 private:
  static char* begin_;
  static char* end_;
  char* next_ = nullptr;
  Pages pages_{};
  size_t taken_ = 0;                          // of pages_
  std::map<const char*, int> segments_;       // by begin: process
  std::map<const char*, size_t> given_back_;  // by begin: bytes
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_SHARED_MEMORY_H_
