// To be preloaded: from `start_jumping` on, every reading of the time of day is up to two hours off, forwards or
// backwards. The monotonic clocks, and the deadlines that are kept by them, are left alone.
//
// jaxlib is told the truth: JAX's coordination service measures heartbeats by the time of day and ends the job.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<bool> jumping{false};
std::atomic<unsigned> readings{0};

using ClockGettime = int (*)(clockid_t, timespec*);

int TrueTime(clockid_t clock, timespec* time) {
  static const auto real = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, time);
}

bool InJaxlib(const void* code) {
  Dl_info library;
  return dladdr(code, &library) != 0 && strstr(library.dli_fname, "/jaxlib/") != nullptr;
}

// Another one at each reading, up to two hours: a hash of the reading's number.
long Jump(const void* caller) {
  if (!jumping || InJaxlib(caller)) return 0;
  const unsigned hash = ++readings * 2654435761u;
  return static_cast<long>(hash % 14400) - 7200;
}

}  // namespace

extern "C" {

void start_jumping() { jumping = true; }

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = TrueTime(clock, time);
  const bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (of_day) time->tv_sec += Jump(__builtin_return_address(0));
  return result;
}

int gettimeofday(timeval* now, void* /*zone: obsolete*/) noexcept {
  timespec time;
  TrueTime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec + Jump(__builtin_return_address(0));
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now;
  TrueTime(CLOCK_REALTIME, &now);
  now.tv_sec += Jump(__builtin_return_address(0));
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
}
