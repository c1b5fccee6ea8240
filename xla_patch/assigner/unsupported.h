#ifndef XLA_SHMEM_ASSIGNER_UNSUPPORTED_H_
#define XLA_SHMEM_ASSIGNER_UNSUPPORTED_H_

#include <optional>
#include <string>

namespace xla_shmem {

// Why a collective is not supported, with the value and the limit; none if it is supported.
using Unsupported = std::optional<std::string>;

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_UNSUPPORTED_H_
