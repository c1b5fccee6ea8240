#ifndef XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace xla_shmem::observe {

// `text` as a JSON string, quotes included. What is not ASCII stays as it is: HLO names are UTF-8 at worst.
std::string JsonString(std::string_view text);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_JSON_TEXT_H_
