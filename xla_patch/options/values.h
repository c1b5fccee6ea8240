// Reads values of options, for the plugin and for a patched jaxlib.
#ifndef XLA_SHMEM_OPTIONS_VALUES_H_
#define XLA_SHMEM_OPTIONS_VALUES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/options/table.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// By OptionType. kBytes, kCount: int64_t, or none for a word without a number. kSeconds: double. kOps: the listed ops
// in the order of CollectiveOp, empty for 'default'. Others: text, kChoice and kList in lower case.
using OptionValue = std::variant<std::monostate, int64_t, double, std::string, std::vector<ConsideredOp>>;

// The value for a text that a user wrote. The error says what the value must be, in words that follow "must be".
Result<OptionValue> ReadOption(const Option& option, const std::string& text);

// Bytes of a size such as 16MiB, 4K or 65536. K, M and G, with or without iB, are powers of 1024. Case does not matter.
Result<int64_t> ReadSize(const std::string& text);

// A value in one spelling: equal values have equal texts.
std::string OptionValueText(const OptionValue& value);

// A time limit of `seconds` > 0. inf, and what int64_t cannot hold in nanoseconds, become 285 years: the time now and
// the limit can be added.
std::chrono::nanoseconds TimeLimit(double seconds);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_OPTIONS_VALUES_H_
