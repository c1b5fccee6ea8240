#include "xla_patch/shm/buffer_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace xla_shmem::shm {
namespace {

size_t WholePages(size_t bytes) {
  return (bytes + BufferFile::kPageBytes - 1) / BufferFile::kPageBytes * BufferFile::kPageBytes;
}

// A limit on files or on addresses is meant for less than a machine's memory.
bool IsLimited(int resource, size_t bytes) {
  rlimit limit;
  return getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur < bytes;
}

}  // namespace

std::unique_ptr<BufferFile> BufferFile::Create(size_t bytes, std::chrono::nanoseconds period) {
  bytes = WholePages(bytes);
  // Each process of a host maps those of all.
  constexpr size_t kMappings = 64;
  if (IsLimited(RLIMIT_FSIZE, bytes) || IsLimited(RLIMIT_AS, kMappings * bytes)) return nullptr;
  const int descriptor = memfd_create("xla_shmem_buffers", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* base = MAP_FAILED;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  }
  if (base == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  madvise(base, bytes, MADV_HUGEPAGE);  // where the kernel gives them to files in memory: shmem_enabled
  return std::unique_ptr<BufferFile>(new BufferFile(descriptor, static_cast<char*>(base), bytes, period));
}

BufferFile::BufferFile(int descriptor, char* base, size_t bytes, std::chrono::nanoseconds period)
    : descriptor_(descriptor),
      base_(base),
      bytes_(bytes),
      period_(period),
      untouched_{{0, bytes}},
      period_end_(Clock::now() + period) {
  AddFree(0, bytes);
}

BufferFile::~BufferFile() {
  munmap(base_, bytes_);
  close(descriptor_);
}

void BufferFile::AddFree(size_t begin, size_t end) {
  free_.emplace(begin, end);
  by_bytes_.emplace(end - begin, begin);
}

void BufferFile::RemoveFree(size_t begin, size_t end) {
  free_.erase(begin);
  by_bytes_.erase({end - begin, begin});
}

size_t BufferFile::Touch(size_t begin, size_t end) {
  size_t took_none = 0;
  auto range = untouched_.upper_bound(begin);
  if (range != untouched_.begin()) --range;
  while (range != untouched_.end() && range->first < end) {
    const auto [first, last] = *range;
    if (last <= begin) {
      ++range;
      continue;
    }
    range = untouched_.erase(range);
    if (first < begin) untouched_.emplace(first, begin);
    if (last > end) untouched_.emplace(end, last);
    took_none += std::min(last, end) - std::max(first, begin);
  }
  return took_none;
}

void* BufferFile::Allocate(size_t bytes) {
  if (is_in_child_ || bytes == 0 || bytes > bytes_) return nullptr;
  bytes = WholePages(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_bytes_.lower_bound({bytes, 0});
  if (found == by_bytes_.end()) return nullptr;
  const auto [room, begin] = *found;
  RemoveFree(begin, begin + room);
  if (room > bytes) AddFree(begin + bytes, begin + room);
  buffers_.emplace(begin, bytes);
  resident_ += Touch(begin, begin + bytes);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return base_ + begin;
}

void BufferFile::Free(void* buffer) {
  if (is_in_child_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = buffers_.find(static_cast<size_t>(static_cast<char*>(buffer) - base_));
  if (found == buffers_.end()) return;
  size_t begin = found->first, end = begin + found->second;
  used_ -= found->second;
  buffers_.erase(found);
  const auto next = free_.lower_bound(begin);
  const auto before = next == free_.begin() ? free_.end() : std::prev(next);
  if (next != free_.end() && next->first == end) {
    const size_t last = next->second;
    RemoveFree(end, last);
    end = last;
  }
  if (before != free_.end() && before->second == begin) {
    const size_t first = before->first;
    RemoveFree(first, begin);
    begin = first;
  }
  AddFree(begin, end);
  const size_t kept = Kept(Clock::now());
  if (resident_ > kept) GiveBack(resident_ - kept);
}

size_t BufferFile::BytesOf(const void* buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = buffers_.find(static_cast<size_t>(static_cast<const char*>(buffer) - base_));
  return found == buffers_.end() ? 0 : found->second;
}

size_t BufferFile::Kept(Clock::time_point now) {
  if (now >= period_end_) {
    peak_before_ = now >= period_end_ + period_ ? used_ : peak_;
    peak_ = used_;
    period_end_ = now + period_;
  }
  return std::max(peak_, peak_before_) + kSpareBytes;
}

std::pair<size_t, size_t> BufferFile::LastTouched(size_t begin, size_t end) const {
  auto after = untouched_.lower_bound(end);
  if (after != untouched_.begin() && std::prev(after)->second >= end) end = std::max(begin, (--after)->first);
  const size_t first = after == untouched_.begin() ? begin : std::max(begin, std::prev(after)->second);
  return {std::min(first, end), end};
}

void BufferFile::GiveBack(size_t bytes) {
  for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
    while (bytes > 0) {
      auto [first, end] = LastTouched(range->first, range->second);
      if (first == end) break;
      first = end - std::min(end - first, WholePages(bytes));
      if (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                    static_cast<off_t>(end - first)) != 0) {
        return;
      }
      AddUntouched(first, end);
      resident_ -= end - first;
      bytes -= std::min(bytes, end - first);
    }
  }
}

void BufferFile::AddUntouched(size_t begin, size_t end) {
  auto next = untouched_.lower_bound(begin);
  if (next != untouched_.end() && next->first == end) {
    end = next->second;
    next = untouched_.erase(next);
  }
  if (next != untouched_.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    untouched_.emplace(begin, end);
  }
}

void BufferFile::AfterForkInChild() {
  is_in_child_ = true;
  void* const copy =
      mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, descriptor_, 0);
  if (copy == MAP_FAILED) mprotect(base_, bytes_, PROT_READ);
  mutex_.unlock();
}

}  // namespace xla_shmem::shm
