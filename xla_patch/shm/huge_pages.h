// Which large buffers lie on huge pages, and how they come there.
//
// A process that reads another's memory (direct_reader.h) has every page of it looked up by the kernel: out of pages of
// 4 KiB it gets a third of what it gets out of pages of 2 MiB, and the two copies of a staged message are faster. XLA's
// buffers come from malloc: on huge pages where the heap is (GLIBC_TUNABLES=glibc.malloc.hugetlb=1, or a system that
// gives them to everybody), and on some by chance, where an array of NumPy's has been before. Those
// that are sent again can be moved there, at a price (docs/performance.md).
#ifndef XLA_SHMEM_SHM_HUGE_PAGES_H_
#define XLA_SHMEM_SHM_HUGE_PAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace xla_shmem::shm {

inline constexpr size_t kHugePageBytes = 2 << 20;

// Bytes of [memory, memory + bytes), memory of this process, that lie on huge pages. 0 where the kernel does not say
// (before Linux 6.7).
size_t BytesOnHugePages(const void* memory, size_t bytes);

// Moves [memory, memory + bytes), memory of this process, to huge pages, with what lies beside it on the same ones; the
// bytes stay. Takes from one to some ten milliseconds a page. Does what it can: pages that are mapped from elsewhere,
// or that the system has no place for, or that it was told to keep small, stay (MADV_COLLAPSE, since Linux 6.1).
void MoveToHugePages(const void* memory, size_t bytes);

// Whether the system's administrator lets programs have huge pages (/sys/kernel/mm/transparent_hugepage/enabled).
bool HugePagesAllowed();

// What is known of the buffers of this process, so that the kernel is not asked each time. Thread-safe.
class HugePages {
 public:
  // Uses after which the kernel is asked again: a buffer may have been given back and mapped anew.
  static constexpr uint32_t kRenewal = 100;
  // The use before which a buffer is moved to huge pages: who is sent twice at one address will be again. Once only:
  // memory that is given back in between comes anew on small pages.
  static constexpr uint32_t kMoved = 2;

  // `may_change`: whether buffers are moved.
  explicit HugePages(bool may_change) : may_change_(may_change && HugePagesAllowed()) {}

  // True if three quarters of the buffer or more lie on huge pages, as far as is known. Counts as a use.
  bool Hold(const void* memory, size_t bytes);

 private:
  struct Buffer {
    const void* memory = nullptr;
    size_t bytes = 0;
    uint32_t uses = 0;
    bool is_huge = false;
  };

  const bool may_change_;
  std::mutex mutex_;
  std::array<Buffer, 1021> buffers_;  // by address; a newcomer takes the place of whoever is there
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_HUGE_PAGES_H_
