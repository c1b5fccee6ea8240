// The calls of the C and C++ libraries that the code under test makes. The linker puts these functions in their place
// (--wrap), for all code of the program. Outside of a run they do nothing, because there is only one thread.
#include "tests/simulator/system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tests/simulator/memory_model.h"
#include "tests/simulator/shared_memory.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::simulator {
namespace {

struct Lock {
  bool held = false;
  VectorClock clock;
};

Lock& LockAt(const void* address) {
  static auto* const locks = new std::unordered_map<const void*, Lock>;
  return (*locks)[address];
}

void LockMutex(const void* mutex) {
  Scheduler& scheduler = Scheduler::Get();
  scheduler.Point();
  while (LockAt(mutex).held) scheduler.Block(mutex);
  LockAt(mutex).held = true;
  MemoryModel::Acquire(LockAt(mutex).clock);
}

void UnlockMutex(const void* mutex) {
  Scheduler& scheduler = Scheduler::Get();
  MemoryModel::Release(&LockAt(mutex).clock);
  LockAt(mutex).held = false;
  scheduler.Wake(mutex, 1);
  scheduler.Point();
}

bool InRun() { return Scheduler::current() != nullptr && OwnCode::depth() == 0; }

// A copy of the code under test: in pieces, between which others run. Shared memory is checked for races.
void CopyInPieces(char* to, const char* from, size_t bytes) {
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  while (bytes > 0) {
    const size_t piece = std::min<size_t>(bytes, 1 + scheduler.Below(16 << 10));
    scheduler.Point();
    if (SharedMemory::Contains(from)) MemoryModel::Get().Read(from, piece);
    if (SharedMemory::Contains(to)) MemoryModel::Get().Write(to, piece);
    __builtin_memmove(to, from, piece);
    to += piece;
    from += piece;
    bytes -= piece;
  }
}

// Small copies between private buffers are not worth a point.
bool IsOfInterest(const void* to, const void* from, size_t bytes) {
  return InRun() && (bytes >= 4096 || SharedMemory::Contains(to) || SharedMemory::Contains(from));
}

std::set<std::pair<int, int>>& RefusedReads() {  // reader, read
  static auto* const refused = new std::set<std::pair<int, int>>;
  return *refused;
}

}  // namespace

SystemOptions& System() {
  static auto* const options = new SystemOptions;
  return *options;
}

}  // namespace xla_shmem::simulator

using namespace xla_shmem::simulator;  // NOLINT: this file is the program's edge

extern "C" {

void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __real_memset(void* to, int value, size_t bytes);

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  if (!IsOfInterest(to, from, bytes)) return __real_memcpy(to, from, bytes);
  CopyInPieces(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  return to;
}

void* __wrap_memset(void* to, int value, size_t bytes) {
  constexpr size_t kPage = 4096, kMany = 64 << 10;
  if (value == 0 && bytes >= kMany && InRun() && !SharedMemory::Contains(to)) {
    // Zeros without memory: tables for thousands of PEs stay empty for the most part.
    auto* const begin = static_cast<char*>(to);
    char* const first = begin + (kPage - reinterpret_cast<uintptr_t>(begin) % kPage) % kPage;
    char* const last = begin + bytes - (reinterpret_cast<uintptr_t>(begin) + bytes) % kPage;
    if (madvise(first, static_cast<size_t>(last - first), MADV_REMOVE) == 0) {
      __real_memset(begin, 0, static_cast<size_t>(first - begin));
      __real_memset(last, 0, static_cast<size_t>(begin + bytes - last));
      return to;
    }
  }
  if (InRun() && SharedMemory::Contains(to)) {
    const OwnCode own_code;
    Scheduler::Get().Point();
    MemoryModel::Get().Write(to, bytes);
  }
  return __real_memset(to, value, bytes);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!InRun()) return 0;
  const OwnCode own_code;
  LockMutex(mutex);
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!InRun()) return 0;
  const OwnCode own_code;
  UnlockMutex(mutex);
  return 0;
}

// std::condition_variable.
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* condition,
                                                                      std::unique_lock<std::mutex>& lock) {
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  const void* const mutex = lock.mutex()->native_handle();
  scheduler.Point();
  // From here to Block nothing else runs: a wait lets go of its lock and begins in one step.
  MemoryModel::Release(&LockAt(mutex).clock);
  LockAt(mutex).held = false;
  scheduler.Wake(mutex, 1);
  if (!scheduler.Chance(System().spurious_wakeups)) scheduler.Block(condition);
  LockMutex(mutex);
}

void __wrap__ZNSt18condition_variable10notify_oneEv(std::condition_variable* condition) {
  if (!InRun()) return;
  const OwnCode own_code;
  Scheduler::Get().Point();
  Scheduler::Get().Wake(condition, 1);
}

void __wrap__ZNSt18condition_variable10notify_allEv(std::condition_variable* condition) {
  if (!InRun()) return;
  const OwnCode own_code;
  Scheduler::Get().Point();
  Scheduler::Get().Wake(condition);
}

// std::thread. `state` is a std::unique_ptr, passed by reference (Itanium C++ ABI); its object has a virtual destructor
// and then the function to run.
struct ThreadState {
  virtual ~ThreadState();
  virtual void Run() = 0;
};
static std::unordered_map<uint64_t, std::pair<Thread*, VectorClock>>& Started() {
  static auto* const started = new std::unordered_map<uint64_t, std::pair<Thread*, VectorClock>>;
  return *started;
}

void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(std::thread* thread,
                                                                                                  ThreadState** state,
                                                                                                  void (*)()) {
  bool refused;
  {
    const OwnCode own_code;
    Scheduler::Get().Point();
    refused = Scheduler::Get().Chance(System().refused_threads);
  }
  if (refused) throw std::system_error(EAGAIN, std::generic_category(), "no thread");
  const OwnCode own_code;
  ThreadState* const body = std::exchange(*state, nullptr);
  Scheduler& scheduler = Scheduler::Get();
  Thread* const started = scheduler.Spawn(nullptr, "thread of " + scheduler.current()->name, [body] {
    body->Run();
    std::default_delete<ThreadState>()(body);
  });
  const uint64_t id = static_cast<uint64_t>(started->id) + 1;
  Started()[id] = {started, {}};
  memcpy(static_cast<void*>(thread), &id, sizeof(id));
}

void __wrap__ZNSt6thread4joinEv(std::thread* thread) {
  const OwnCode own_code;
  uint64_t id;
  memcpy(&id, static_cast<void*>(thread), sizeof(id));
  Thread* const other = Started().at(id).first;
  Scheduler::Get().Point();
  while (other->state != Thread::State::kDone) Scheduler::Get().Block(other);
  MemoryModel::Acquire(other->sight.happened);
  id = 0;
  memcpy(static_cast<void*>(thread), &id, sizeof(id));
}

// A static variable is initialised in one step, because its guard knows only real threads.
int __real___cxa_guard_acquire(uint64_t* guard);
void __real___cxa_guard_release(uint64_t* guard);
int __wrap___cxa_guard_acquire(uint64_t* guard) {
  const int must = __real___cxa_guard_acquire(guard);
  if (must != 0 && Scheduler::current() != nullptr) ++Scheduler::current()->undivided;
  return must;
}
void __wrap___cxa_guard_release(uint64_t* guard) {
  __real___cxa_guard_release(guard);
  if (Scheduler::current() != nullptr) --Scheduler::current()->undivided;
}

int __wrap_sched_yield() {
  if (!InRun()) return 0;
  const OwnCode own_code;
  Scheduler::Get().Yield();
  return 0;
}

int __wrap_usleep(unsigned microseconds) {
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  scheduler.Block(&scheduler, scheduler.now() + int64_t{1000} * microseconds);
  return 0;
}

int __wrap_sched_getaffinity(pid_t, size_t bytes, cpu_set_t* set) {
  __real_memset(set, 0, bytes);
  for (int processor = 0; processor < System().processors; ++processor) CPU_SET(processor, set);
  return 0;
}

pid_t __wrap_getpid() {
  const Thread* const thread = Scheduler::current();
  return thread == nullptr ? 1 : PidOf(*thread->process);
}

// Only futexes. The system sees the newest value, and orders nothing else.
long __wrap_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  auto* const word = va_arg(arguments, uint32_t*);
  const int operation = va_arg(arguments, int);
  const auto value = va_arg(arguments, uint32_t);
  const auto* const timeout = va_arg(arguments, const timespec*);
  va_end(arguments);
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  if (number != SYS_futex) scheduler.Fail("system call " + std::to_string(number) + " is not simulated");
  scheduler.Point();
  if (operation == FUTEX_WAKE) return scheduler.Wake(word, static_cast<int>(value));
  if (operation != FUTEX_WAIT) scheduler.Fail("futex operation " + std::to_string(operation) + " is not simulated");
  if (MemoryModel::Get().Newest(word, sizeof(*word)) != value) {
    errno = EAGAIN;
    return -1;
  }
  if (scheduler.Chance(System().spurious_wakeups)) {
    errno = EINTR;
    return -1;
  }
  const int64_t until =
      timeout == nullptr ? 0 : scheduler.now() + timeout->tv_sec * int64_t{1'000'000'000} + timeout->tv_nsec + 1;
  if (scheduler.Block(word, until)) return 0;
  if (System().must_be_woken) scheduler.Fail("a wait ended by its time limit: a wake-up was lost");
  errno = ETIMEDOUT;
  return -1;
}

// Reads as the system does: at some time, piece by piece, whatever the owner does meanwhile. Memory that the owner has
// given back is refused, or holds other things by now.
ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                unsigned long remote_count, unsigned long) {
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  scheduler.Point();
  const SystemOptions& system = System();
  const int reader = scheduler.current()->process->number, read = pid - 1000;
  if (scheduler.Chance(system.refused_reads)) RefusedReads().insert({reader, read});
  ssize_t done = 0;
  for (unsigned long i = 0; i < local_count && i < remote_count; ++i) {
    const auto* const from = static_cast<const char*>(remote[i].iov_base);
    auto* const to = static_cast<char*>(local[i].iov_base);
    for (size_t at = 0; at < remote[i].iov_len;) {
      scheduler.Point();
      if (scheduler.IsDead(read))
        errno = ESRCH;
      else if (RefusedReads().count({reader, read}) != 0)
        errno = EPERM;
      else
        errno = 0;
      if (errno != 0) return done > 0 ? done : -1;
      if (done > 0 && scheduler.Chance(system.partial_reads)) return done;
      const size_t piece = std::min<size_t>(remote[i].iov_len - at, 1 + scheduler.Below(32 << 10));
      if (SharedMemory::Get().IsReadable(from + at, piece)) {
        __builtin_memcpy(to + at, from + at, piece);
      } else if (scheduler.Chance(0.5)) {
        __real_memset(to + at, 0xa5, piece);
      } else {
        errno = EFAULT;
        return done > 0 ? done : -1;
      }
      at += piece;
      done += static_cast<ssize_t>(piece);
    }
  }
  return done;
}

}  // extern "C"

// Files: flight records. A reader may rest between two pieces, while others write.
extern "C" ssize_t __real_pread(int file, void* to, size_t bytes, off_t at);
extern "C" ssize_t __wrap_pread(int file, void* to, size_t bytes, off_t at) {
  if (!InRun()) return __real_pread(file, to, bytes, at);
  const OwnCode own_code;
  Scheduler& scheduler = Scheduler::Get();
  constexpr size_t kPiece = 16 << 10;
  size_t done = 0;
  while (done < bytes) {
    scheduler.Point();
    if (scheduler.Chance(0.1)) {
      scheduler.Block(to, scheduler.now() + 1 + static_cast<int64_t>(scheduler.Below(50'000'000)));
    }
    const size_t piece = std::min(kPiece, bytes - done);
    const ssize_t read = __real_pread(file, static_cast<char*>(to) + done, piece, at + static_cast<off_t>(done));
    if (read <= 0) break;
    done += static_cast<size_t>(read);
  }
  return static_cast<ssize_t>(done);
}

// std::chrono::steady_clock::now, whose time_point is a number of nanoseconds.
extern "C" int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  if (InRun()) {
    const OwnCode own_code;
    Scheduler::Get().Point();
  }
  return Scheduler::Get().now();
}
