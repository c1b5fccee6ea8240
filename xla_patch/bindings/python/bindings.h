// What the sources of the module `xla_shmem._core` share: a Bind function each, and how errors, options, handlers and
// records become objects of Python and back.
#ifndef XLA_SHMEM_BINDINGS_PYTHON_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_patch/assigner/tuning.h"
#include "xla_patch/hlo/rewrite/pass.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// The table of options and the readers of their values.
void BindOptions(nanobind::module_& m);
// TuningTable and the cost model. First, because the functions of BindPass take a table.
void BindTuning(nanobind::module_& m);
// Topology, Transport, the transports, collective_ops and run_pass. Bad input raises ValueError with the message of the
// C++ side.
void BindPass(nanobind::module_& m);
// PassHook, and cpu_pass and gpu_pass, which return its two instances. After BindPass.
void BindPassHook(nanobind::module_& m);
// What reads modules and does not change them: inspect_module, explain_module, schedule. Errors as of BindPass.
void BindInspection(nanobind::module_& m);
// GpuPlugin, which registers the pass and the handlers with a GPU plugin.
void BindGpuPlugin(nanobind::module_& m);
// The GPU runtime, its device code and handlers, and NVSHMEM's library and settings.
void BindGpuRuntime(nanobind::module_& m);
// The transfers of the GPU runtime without XLA, for benchmarks/gpu. They take addresses and streams as integers and
// need a started runtime.
void BindGpuTransfers(nanobind::module_& m);

// An error becomes Python's RuntimeError with its message.
inline void RuntimeErrorUnlessOk(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T ValueOrRuntimeError(Result<T> result) {
  RuntimeErrorUnlessOk(result.status());
  return *std::move(result);
}

// The value; ValueError with the message if there is none.
template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) throw nanobind::value_error(result.message().c_str());
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

// A handler as a capsule with the name that XLA expects.
inline nanobind::capsule HandlerCapsule(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*)) {
  return nanobind::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

// A dict of stage capsules as jax.ffi.register_ffi_target takes it.
inline nanobind::dict HandlerStages(XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*),
                                    XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*)) {
  nanobind::dict stages;
  stages["instantiate"] = HandlerCapsule(instantiate);
  stages["execute"] = HandlerCapsule(execute);
  return stages;
}

// (op, limit in bytes or none) of each op that XLA_SHMEM_OPS lists; empty: the ops of profile upstream.
using OpList = std::vector<std::pair<std::string, std::optional<int64_t>>>;

// The words of XLA_SHMEM_BACKENDS, and of the ways that the pass can choose in this release of XLA.
using WayList = std::vector<std::string>;

// ValueError if a word is unknown.
Ways ParseWays(const WayList& words);

// From the keywords of Python. ValueError if a name is unknown or a number is negative. A null table is an empty one;
// no backends are all.
PassOptions MakePassOptions(const Topology& topology, const Transport& transport, const std::string& profile,
                            int64_t threshold, const OpList& ops, const TuningTable* tuning,
                            const std::string& lowering, const std::string& gpu, const std::string& hierarchical,
                            const WayList& backends = {}, const WayList& settable = {});
GpuGeneration ParseGpu(const std::string& name);
CollectiveOp ParseOp(const std::string& name);

std::string_view View(const nanobind::bytes& bytes);

// Names come from files that may be corrupt: bytes that are not UTF-8 are replaced.
nanobind::object Text(std::string_view text);

// None for -1, which means unknown.
nanobind::object KnownCount(int64_t count);

nanobind::dict RecordDict(const CollectiveRecord& record);

// One dict per record.
nanobind::list RecordList(const std::vector<CollectiveRecord>& records);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_BINDINGS_H_
