#include "xla_patch/shm/huge_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace xla_shmem::shm {
namespace {

// PAGEMAP_SCAN of <linux/fs.h>, which older headers do not have.
struct PageRegion {
  uint64_t start, end, categories;
};
struct ScanArgument {
  uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);
constexpr uint64_t kPageIsHuge = 1 << 6;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, likewise

}  // namespace

size_t BytesOnHugePages(const void* memory, size_t bytes) {
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory), end = begin + bytes;
  std::array<PageRegion, 64> regions;
  ScanArgument scan{};
  scan.size = sizeof(scan);
  scan.start = begin / page * page;
  scan.end = (end + page - 1) / page * page;
  scan.regions = reinterpret_cast<uintptr_t>(regions.data());
  scan.region_count = regions.size();
  scan.category_mask = scan.return_mask = kPageIsHuge;
  size_t found = 0;
  while (scan.start < scan.end) {
    const int count = ioctl(file, kPagemapScan, &scan);
    if (count < 0) break;
    for (int i = 0; i < count; ++i) {
      found += std::min<uintptr_t>(regions[i].end, end) - std::max<uintptr_t>(regions[i].start, begin);
    }
    if (scan.walk_end <= scan.start) break;
    scan.start = scan.walk_end;
  }
  close(file);
  return found;
}

void MoveToHugePages(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory) / kHugePageBytes * kHugePageBytes;
  const auto end = reinterpret_cast<uintptr_t>(memory) + bytes;
  // One by one: a page that cannot be moved does not keep the next from it.
  for (uintptr_t page = begin; page < end; page += kHugePageBytes) {
    madvise(reinterpret_cast<void*>(page), kHugePageBytes, kCollapse);
  }
}

bool HugePagesAllowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string choice;
  return std::getline(file, choice) && choice.find("[never]") == std::string::npos;
}

bool HugePages::Hold(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Buffer& buffer = buffers_[reinterpret_cast<uintptr_t>(memory) / 64 % buffers_.size()];
  if (buffer.memory != memory || buffer.bytes != bytes) buffer = {memory, bytes, 0, false};
  ++buffer.uses;
  const bool move = may_change_ && buffer.uses == kMoved && !buffer.is_huge;
  if (move) MoveToHugePages(memory, bytes);
  if (move || buffer.uses % kRenewal == 1) buffer.is_huge = BytesOnHugePages(memory, bytes) / 3 >= bytes / 4;
  return buffer.is_huge;
}

}  // namespace xla_shmem::shm
