// What all executions of a collective have taken together, and the table that XLA_SHMEM_STATS=1 prints of it at exit.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "xla_patch/runtime/observe/flight_recorder.h"

namespace xla_shmem::observe {

struct Totals {
  uint64_t calls = 0;
  uint64_t inline_calls = 0;
  uint64_t bytes = 0;
  uint64_t total_ns = 0;
  uint64_t waited_ns = 0;  // as moved_ns, of the calls for which it is known
  uint64_t moved_ns = 0;
  uint64_t measured_calls = 0;  // those
  uint64_t longest_ns = 0;

  static Totals Of(const Finished& execution);
  void Add(const Totals& other);
};

// By name and op.
using TotalsByCollective = std::map<std::pair<std::string, std::string>, Totals>;

// A table under the line `title`, the collective with the most time first; "" if nothing has run. On CPU it tells
// waiting from moving, which are not known of the default backend; on GPU it has the mean.
std::string TotalsTable(const std::string& title, bool on_gpu, const TotalsByCollective& totals);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
