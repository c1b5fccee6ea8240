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

// Adds the compiler side to the module: Topology, Transport, cpu_transport, run_pass. Bad input raises ValueError with
// the message of the C++ side.
void BindPass(nanobind::module_& m);

// (op, limit in bytes or none) of each op that XLA_SHMEM_OPS lists; none listed: the published two.
using OpList = std::vector<std::pair<std::string, std::optional<int64_t>>>;

// What Python passes as keywords; ValueError if a name is unknown or a number is negative. No table is an empty one.
PassOptions MakePassOptions(const Topology& topology, const Transport& transport, const std::string& profile,
                            int64_t threshold, const OpList& ops, const TuningTable* tuning,
                            const std::string& lowering);

// The value; ValueError with the message if there is none.
template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) {
    throw nanobind::value_error(result.message().c_str());
  }
  return *std::move(result);
}

// What read(), which returns a Result, gives without holding the GIL.
template <typename Read>
auto WithoutGil(Read read) {
  return ValueOrThrow([&] {
    nanobind::gil_scoped_release release;
    return read();
  }());
}

std::string_view View(const nanobind::bytes& bytes);

// Names come from files that may be corrupt, so they need not be UTF-8.
nanobind::object Text(std::string_view text);

// -1 stands for what is not known: None.
nanobind::object KnownCount(int64_t count);

nanobind::dict RecordDict(const CollectiveRecord& record);

// One dict per record.
nanobind::list RecordList(const std::vector<CollectiveRecord>& records);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_PASS_BINDINGS_H_
