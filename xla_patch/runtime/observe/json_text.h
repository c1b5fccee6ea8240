#ifndef XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace xla_shmem::observe {

// `text` as a JSON string, with its quotes. Bytes outside ASCII stay unchanged, because HLO names are UTF-8.
std::string JsonString(std::string_view text);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_
