// XLA's macros for errors have another name and another header in each release.
#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_STATUS_MACROS_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_STATUS_MACROS_H_

#include <utility>

#define SHMEM_RETURN_IF_ERROR(expression)                                          \
  do {                                                                             \
    if (auto shmem_status = (expression); !shmem_status.ok()) return shmem_status; \
  } while (false)

// `target` = the value of the absl::StatusOr `expression`.
#define SHMEM_ASSIGN_OR_RETURN(target, expression) SHMEM_ASSIGN_OR_RETURN_AT(__LINE__, target, expression)
#define SHMEM_ASSIGN_OR_RETURN_AT(line, target, expression) SHMEM_ASSIGN_OR_RETURN_AS(line, target, expression)
#define SHMEM_ASSIGN_OR_RETURN_AS(line, target, expression) \
  auto result_##line = (expression);                        \
  if (!result_##line.ok()) return result_##line.status();   \
  target = *std::move(result_##line)

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_STATUS_MACROS_H_
