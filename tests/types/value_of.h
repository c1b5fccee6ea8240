#ifndef XLA_SHMEM_TESTS_TYPES_VALUE_OF_H_
#define XLA_SHMEM_TESTS_TYPES_VALUE_OF_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "xla_patch/types/status.h"

namespace xla_shmem::testing {

// The value of `result`; ends the process if there is none. Works in forked processes too, where doctest reports
// nothing.
template <typename T>
T ValueOf(Result<T> result) {
  if (!result.ok()) {
    fprintf(stderr, "%s\n", result.message().c_str());
    abort();
  }
  return *std::move(result);
}

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_TYPES_VALUE_OF_H_
