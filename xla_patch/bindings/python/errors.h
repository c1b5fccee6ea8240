#ifndef XLA_SHMEM_BINDINGS_PYTHON_ERRORS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_ERRORS_H_

#include <stdexcept>
#include <utility>

#include "xla_patch/types/status.h"

namespace xla_shmem {

// An error becomes Python's RuntimeError with its message.
inline void RuntimeErrorUnlessOk(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T ValueOrRuntimeError(Result<T> result) {
  RuntimeErrorUnlessOk(result.status());
  return *std::move(result);
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_ERRORS_H_
