// The table that XLA_SHMEM_STATS=1 prints at exit: for each collective, its calls, bytes, and the time that it waited
// and moved data.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace xla_shmem::observe {

// One finished execution.
struct Measurement {
  uint64_t bytes = 0;     // of the operands
  uint64_t total_ns = 0;  // from the call of the handler to the last byte; on GPUs, between its begin and its end
  std::optional<uint64_t> copied_ns = 0;  // of total_ns, spent copying and reducing; not known on GPUs
  bool is_inline = false;                 // finished in the handler and not on a thread of the progress engine
};

class Statistics {
 public:
  explicit Statistics(bool on_gpu = false) : on_gpu_(on_gpu) {}
  void Add(const std::string& op, const std::string& name, const Measurement& measurement);
  // A table under the line `title`, the collective with the most time first; "" if nothing has run.
  std::string Table(const std::string& title) const;

 private:
  struct Row {
    uint64_t calls = 0;
    uint64_t inline_calls = 0;
    uint64_t bytes = 0;
    uint64_t total_ns = 0;
    uint64_t copied_ns = 0;
    uint64_t longest_ns = 0;
  };
  std::string Line(const Row& row, const std::string& op, const std::string& name) const;

  const bool on_gpu_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Row> rows_;  // by name and op; guarded by mutex_
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_TOTALS_H_
