// The calls that clang puts into the code under test (-fsanitize=thread), one at each access to memory.
// ThreadSanitizer's own library is not linked: these functions stand in its place, so production code runs under the
// simulator unchanged.
#include <emmintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/simulator/memory_model.h"
#include "tests/simulator/scheduler.h"
#include "tests/simulator/shared_memory.h"

using xla_shmem::simulator::MemoryModel;
using xla_shmem::simulator::OwnCode;
using xla_shmem::simulator::Scheduler;
using xla_shmem::simulator::SharedMemory;

namespace {

// Private memory needs no point: nothing of another process may see it, and locks order the threads of its own.
void Read(const void* address, size_t bytes) {
  if (!SharedMemory::Contains(address)) return;
  const OwnCode own_code;
  Scheduler::Get().Point();
  MemoryModel::Get().Read(address, bytes);
}

void Write(void* address, size_t bytes) {
  if (!SharedMemory::Contains(address)) return;
  const OwnCode own_code;
  Scheduler::Get().Point();
  MemoryModel::Get().Write(address, bytes);
}

template <typename T>
T Load(const volatile T* address, int order) {
  const OwnCode own_code;
  Scheduler::Get().Point();
  return static_cast<T>(MemoryModel::Get().Load(const_cast<const T*>(address), sizeof(T), std::memory_order(order)));
}

template <typename T>
void Store(volatile T* address, T value, int order) {
  const OwnCode own_code;
  Scheduler::Get().Point();
  MemoryModel::Get().Store(const_cast<T*>(address), sizeof(T), value, std::memory_order(order));
}

template <typename T, typename Change>
T Modify(volatile T* address, int order, Change change) {
  const OwnCode own_code;
  Scheduler::Get().Point();
  return static_cast<T>(MemoryModel::Get().Modify(
      const_cast<T*>(address), sizeof(T), [&](uint64_t value) { return change(static_cast<T>(value)); },
      std::memory_order(order)));
}

template <typename T>
bool CompareExchange(volatile T* address, T* expected, T desired, int order, int failure) {
  const OwnCode own_code;
  Scheduler::Get().Point();
  uint64_t value = *expected;
  const bool done = MemoryModel::Get().CompareExchange(const_cast<T*>(address), sizeof(T), &value, desired,
                                                       std::memory_order(order), std::memory_order(failure));
  *expected = static_cast<T>(value);
  return done;
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
// clang 15 and newer call these in place of the C library's, which are wrapped (system_calls.cc).
void* __tsan_memcpy(void* to, const void* from, size_t bytes) { return memcpy(to, from, bytes); }
void* __tsan_memmove(void* to, const void* from, size_t bytes) { return memmove(to, from, bytes); }
void* __tsan_memset(void* to, int value, size_t bytes) { return memset(to, value, bytes); }

#define XLA_SHMEM_PLAIN(size)                                                \
  void __tsan_read##size(void* address) { Read(address, size); }             \
  void __tsan_write##size(void* address) { Write(address, size); }           \
  void __tsan_read_write##size(void* address) { Write(address, size); }      \
  void __tsan_unaligned_read##size(void* address) { Read(address, size); }   \
  void __tsan_unaligned_write##size(void* address) { Write(address, size); } \
  void __tsan_unaligned_read_write##size(void* address) { Write(address, size); }
XLA_SHMEM_PLAIN(1)
XLA_SHMEM_PLAIN(2)
XLA_SHMEM_PLAIN(4)
XLA_SHMEM_PLAIN(8)
XLA_SHMEM_PLAIN(16)
#undef XLA_SHMEM_PLAIN

#define XLA_SHMEM_ATOMIC(bits)                                                                                         \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* address, int order) {                       \
    return Load(address, order);                                                                                       \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* address, uint##bits##_t value, int order) {                \
    Store(address, value, order);                                                                                      \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* address, uint##bits##_t value, int order) {   \
    return Modify(address, order, [=](uint##bits##_t) { return value; });                                              \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* address, uint##bits##_t value, int order) {  \
    return Modify(address, order, [=](uint##bits##_t old) { return static_cast<uint##bits##_t>(old + value); });       \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile uint##bits##_t* address, uint##bits##_t value, int order) {  \
    return Modify(address, order, [=](uint##bits##_t old) { return static_cast<uint##bits##_t>(old - value); });       \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_or(volatile uint##bits##_t* address, uint##bits##_t value, int order) {   \
    return Modify(address, order, [=](uint##bits##_t old) { return static_cast<uint##bits##_t>(old | value); });       \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_and(volatile uint##bits##_t* address, uint##bits##_t value, int order) {  \
    return Modify(address, order, [=](uint##bits##_t old) { return static_cast<uint##bits##_t>(old & value); });       \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* address, uint##bits##_t* expected,        \
                                                    uint##bits##_t desired, int order, int failure) {                  \
    return CompareExchange(address, expected, desired, order, failure);                                                \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t* address, uint##bits##_t* expected,          \
                                                  uint##bits##_t desired, int order, int failure) {                    \
    return CompareExchange(address, expected, desired, order, failure);                                                \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t* address, uint##bits##_t expected, \
                                                            uint##bits##_t desired, int order, int failure) {          \
    CompareExchange(address, &expected, desired, order, failure);                                                      \
    return expected;                                                                                                   \
  }
XLA_SHMEM_ATOMIC(8)
XLA_SHMEM_ATOMIC(16)
XLA_SHMEM_ATOMIC(32)
XLA_SHMEM_ATOMIC(64)
#undef XLA_SHMEM_ATOMIC

void __tsan_atomic_thread_fence(int order) {
  const OwnCode own_code;
  Scheduler::Get().Point();
  MemoryModel::Get().Fence(std::memory_order(order));
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
