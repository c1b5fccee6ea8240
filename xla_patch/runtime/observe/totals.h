// What all executions of a collective have taken together, and the table that XLA_SHMEM_STATS=1 prints of it at exit.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "xla_patch/runtime/observe/flight_recorder.h"

namespace xla_shmem::observe {

struct Sums {
  uint64_t calls = 0;
  uint64_t inline_calls = 0;
  uint64_t bytes = 0;
  uint64_t total_ns = 0;
  uint64_t moved_ns = 0;
  uint64_t longest_ns = 0;

  void Add(const Sums& other);
};

// The sums of one collective. Each execution is added once, when it ends, so they are exact however long the run, and
// without a lock.
class Totals {
 public:
  void Add(const Finished& execution);
  // Of executions that end meanwhile some numbers may be in the sums and others not.
  Sums Read() const;

 private:
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> inline_calls_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> total_ns_{0};
  std::atomic<uint64_t> moved_ns_{0};
  std::atomic<uint64_t> longest_ns_{0};
};

// By name and op.
using TotalsByCollective = std::map<std::pair<std::string, std::string>, Sums>;

// A table under the line `title`, the collective with the most time first; "" if nothing has run. On CPU it tells
// waiting from moving, on GPU it has the mean.
std::string TotalsTable(const std::string& title, bool on_gpu, const TotalsByCollective& totals);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
