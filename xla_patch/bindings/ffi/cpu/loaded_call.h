// A custom call of an executable that XLA:CPU has loaded. Its attributes are read once, for every run.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_LOADED_CALL_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_LOADED_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/runtime/execution_counter.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/runtime/runtime.h"
#include "xla_patch/shm/operation.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// XLA creates one when it loads the executable and passes it to every execution, on any device.
struct LoadedCall {
  static ::xla::ffi::TypeId id;
  uint64_t executable = 0;  // for ExecutionCounter; never used twice, in no other call either
  CallIdentity identity;
  std::string label;  // CallIdentity::Label
  // Only those that the op has.
  std::optional<PePairs> pairs;
  std::optional<PeGroups> groups;
  std::optional<ReductionKind> reduction;
  // Of the parts of a divided collective (hlo/rewrite/part_call.h).
  std::optional<size_t> part_bytes;
  std::vector<int64_t> positions;  // as many for each PE of the groups, one group after the other
  std::vector<int64_t> received_by;
  std::vector<int64_t> sources;
  observe::Origin origin;
  const observe::RecordedSite* site = nullptr;
  // Only of a call that marks a collective of the default backend; null: there is no runtime to record it.
  MarkedCollective* marked = nullptr;
};

// `op`: its name in HLO. Refuses a call that was compiled for another topology, or that is loaded where the runtime
// cannot run.
::xla::ffi::ErrorOr<std::unique_ptr<LoadedCall>> Load(const char* op, ::xla::ffi::Dictionary attributes);

// The same for a call that marks a collective of the default backend. Where the runtime cannot run, or for another
// topology, it does nothing, because the collective itself can run there.
::xla::ffi::ErrorOr<std::unique_ptr<LoadedCall>> LoadMark(::xla::ffi::Dictionary attributes);

// The result of a handler: done, with or without an error, or a future. Unlike ffi::Future, "done" needs no allocation.
struct Outcome {
  std::optional<::xla::ffi::Error> error;
  std::optional<::xla::ffi::Future> future;
};

Outcome Failed(const Status& status);
// This process can do nothing for the collective. The others learn of it and do not wait for it.
Outcome FailJob(const std::string& why);

// One execution of a call on one PE.
struct Execution {
  int pe;
  uint64_t number;  // MessageKey::execution
  uint64_t bytes;   // of the operands
  ExecutionCounter::Running running;
};

// Polls `operation` for a short time; if it does not finish, the progress engine completes it.
Outcome Start(const LoadedCall& call, Execution execution, std::unique_ptr<Operation> operation);

// The PE of a device of this process.
Result<const PeContext*> FindContext(const LoadedCall& call, int32_t device);

// Numbers an execution, alike on all PEs. Fails the job if another run of the program is under way.
Result<ExecutionCounter::Execution> Count(const LoadedCall& call, int pe, ::xla::ffi::RunId run);

}  // namespace xla_shmem

namespace xla::ffi {

template <ExecutionStage stage>
struct ResultEncoding<stage, ::xla_shmem::Outcome> {
  static std::variant<XLA_FFI_Error*, XLA_FFI_Future*> Encode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* context,
                                                              ::xla_shmem::Outcome outcome) {
    if (outcome.future.has_value()) {
      return ResultEncoding<stage, Future>::Encode(api, context, std::move(*outcome.future));
    }
    if (outcome.error.has_value()) return internal::CreateError(api, *outcome.error);
    return static_cast<XLA_FFI_Error*>(nullptr);
  }
};

}  // namespace xla::ffi

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_LOADED_CALL_H_
