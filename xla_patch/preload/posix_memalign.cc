// A library to be loaded before all others (LD_PRELOAD), by which XLA:CPU takes its large buffers from a file in memory
// that other processes map (shm/shared_buffers.h). XLA:CPU has each from posix_memalign, anew in each run. Calls of all
// other code, small ones and those that find no room go on to the C library, or to what else is preloaded.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "xla_patch/shm/buffer_file.h"

namespace xla_shmem {
namespace {

using shm::BufferFile;

// Smaller messages travel through mailboxes and slots (kMinCrossMemoryReadBytes).
constexpr size_t kLeastBytes = 16 << 10;

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::atomic<BufferFile*> buffers{nullptr};  // lives as long as the process

// Made at the first call. A child forked from a process with a file has none of its own.
BufferFile* Buffers() {
  static BufferFile* const made = []() -> BufferFile* {
    const auto memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    BufferFile* const file = BufferFile::Create(memory).release();
    if (file == nullptr) return nullptr;
    buffers.store(file, std::memory_order_release);
    pthread_atfork([] { buffers.load(std::memory_order_relaxed)->BeforeFork(); },
                   [] { buffers.load(std::memory_order_relaxed)->AfterForkInParent(); },
                   [] { buffers.load(std::memory_order_relaxed)->AfterForkInChild(); });
    return file;
  }();
  return made;
}

BufferFile* FileOf(const void* address) {
  BufferFile* const file = buffers.load(std::memory_order_acquire);
  return file != nullptr && file->Has(address) ? file : nullptr;
}

// Whether code of jaxlib's XLA is at this address. Its library is known by name once, and then by its base.
bool IsXla(const void* code) {
  static std::atomic<uintptr_t> library{0};  // its base
  Dl_info info;
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return false;
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  if (library.load(std::memory_order_relaxed) == base) return true;
  if (strstr(info.dli_fname, "libjax_common.") == nullptr) return false;
  library.store(base, std::memory_order_relaxed);
  return true;
}

void* AllocateForXla(size_t alignment, size_t bytes, const void* caller) {
  if (bytes < kLeastBytes || alignment > BufferFile::kPageBytes || !IsXla(caller)) return nullptr;
  try {
    BufferFile* const file = Buffers();
    return file == nullptr ? nullptr : file->Allocate(bytes);
  } catch (const std::exception&) {
    return nullptr;  // no memory for what the file knows about a buffer
  }
}

}  // namespace
}  // namespace xla_shmem

#define XLA_SHMEM_EXPORT extern "C" __attribute__((visibility("default")))

XLA_SHMEM_EXPORT int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (void* const buffer = xla_shmem::AllocateForXla(alignment, bytes, __builtin_return_address(0))) {
    *memory = buffer;
    return 0;
  }
  static const auto next = xla_shmem::Next<int (*)(void**, size_t, size_t)>("posix_memalign");
  return next(memory, alignment, bytes);
}

XLA_SHMEM_EXPORT void free(void* memory) {
  if (auto* const file = xla_shmem::FileOf(memory)) return file->Free(memory);
  static const auto next = xla_shmem::Next<void (*)(void*)>("free");
  next(memory);
}

// XLA does not call the next two. They are here because a buffer is memory as any other.
XLA_SHMEM_EXPORT void* realloc(void* memory, size_t bytes) {
  static const auto next = xla_shmem::Next<void* (*)(void*, size_t)>("realloc");
  auto* const file = xla_shmem::FileOf(memory);
  if (file == nullptr) return next(memory, bytes);
  void* const moved = bytes == 0 ? nullptr : malloc(bytes);
  if (bytes != 0 && moved == nullptr) return nullptr;
  if (moved != nullptr) memcpy(moved, memory, std::min(bytes, file->BytesOf(memory)));
  file->Free(memory);
  return moved;
}

XLA_SHMEM_EXPORT size_t malloc_usable_size(void* memory) {
  if (auto* const file = xla_shmem::FileOf(memory)) return file->BytesOf(memory);
  static const auto next = xla_shmem::Next<size_t (*)(void*)>("malloc_usable_size");
  return next(memory);
}

XLA_SHMEM_EXPORT bool xla_shmem_find_buffer_file(xla_shmem::shm::BufferFilePlace* place) {
  auto* const file = xla_shmem::Buffers();
  if (file == nullptr || file->is_in_child()) return false;
  *place = {file->descriptor(), file->base(), file->bytes()};
  return true;
}
