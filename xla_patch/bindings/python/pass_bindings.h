#ifndef XLA_SHMEM_BINDINGS_PYTHON_PASS_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_PASS_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/tuning.h"
#include "xla_patch/hlo/rewrite/pass.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Adds Topology, Transport, the transports, collective_ops and run_pass. Bad input raises ValueError with the message
// of the C++ side.
void BindPass(nanobind::module_& m);

// (op, limit in bytes or none) of each op that XLA_SHMEM_OPS lists; empty: the ops of profile upstream.
using OpList = std::vector<std::pair<std::string, std::optional<int64_t>>>;

// From the keywords of Python. ValueError if a name is unknown or a number is negative. A null table is an empty one.
PassOptions MakePassOptions(const Topology& topology, const Transport& transport, const std::string& profile,
                            int64_t threshold, const OpList& ops, const TuningTable* tuning,
                            const std::string& lowering, const std::string& gpu, const std::string& hierarchical);
GpuGeneration ParseGpu(const std::string& name);
CollectiveOp ParseOp(const std::string& name);

// The value; ValueError with the message if there is none.
template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) {
    throw nanobind::value_error(result.message().c_str());
  }
  return *std::move(result);
}

// Calls read(), which returns a Result, without the GIL; ValueError with the message if there is no value.
template <typename Read>
auto WithoutGil(Read read) {
  return ValueOrThrow([&] {
    nanobind::gil_scoped_release release;
    return read();
  }());
}

std::string_view View(const nanobind::bytes& bytes);

// Names come from files that may be corrupt: bytes that are not UTF-8 are replaced.
nanobind::object Text(std::string_view text);

// None for -1, which means unknown.
nanobind::object KnownCount(int64_t count);

nanobind::dict RecordDict(const CollectiveRecord& record);

// One dict per record.
nanobind::list RecordList(const std::vector<CollectiveRecord>& records);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_PASS_BINDINGS_H_
