// The table of options. A new option is a row in table.cc; `python tools/option_files.py` then writes what Python's
// type checkers and docs/options.md know about it. The plugin, the tools and a patched jaxlib read values by this
// table.
#ifndef XLA_SHMEM_OPTIONS_TABLE_H_
#define XLA_SHMEM_OPTIONS_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem {

enum class OptionType : uint8_t {
  kChoice,   // one of `words`
  kBytes,    // a size such as 16MiB
  kCount,    // a whole number
  kSeconds,  // a number > 0; inf: no limit
  kOps,      // collectives with limits
  kList,     // some of `words`, or the first one alone
  kPath,
  kLibrary,  // a path with a / in it
  kJob,      // a key of 32 hexadecimal digits
  kTuning,   // the path of a tuning table
};
const char* OptionTypeName(OptionType type);  // "choice", "bytes", ...

// Bits of Option::traits.
namespace option_trait {
inline constexpr uint32_t kOnCpu = 1;          // has an effect on XLA:CPU
inline constexpr uint32_t kOnGpu = 2;          // has an effect on XLA:GPU
inline constexpr uint32_t kInTools = 4;        // commands of xla-shmem that run no job read it
inline constexpr uint32_t kPatchedJaxlib = 8;  // a patched jaxlib reads it
inline constexpr uint32_t kDecides = 16;       // decisions about collectives depend on it
inline constexpr uint32_t kChangesTimes = 32;  // a tuning table holds only for the value with which it was measured
inline constexpr uint32_t kEqualOnRanks = 64;  // all processes of a job on GPUs must have the same value
}  // namespace option_trait

// A word that a user may write. In options of numbers it stands for `value`, or for none.
struct OptionWord {
  std::string_view word;
  std::optional<int64_t> value = std::nullopt;
};

struct Option {
  std::string_view name;  // the keyword of xla_shmem.configure
  OptionType type = OptionType::kPath;
  std::string_view default_text;  // as a user writes it; "" for none
  std::string_view example;       // a value
  uint32_t traits = 0;
  std::vector<OptionWord> words;
  int64_t least = 0, most = 0;  // of kBytes and kCount
  std::string values;           // what a value must be: "'auto' or a size of at least 8MiB"
  std::string_view text;        // what the option does, in Markdown

  bool Has(uint32_t trait) const { return (traits & trait) != 0; }
  std::string Variable() const;  // of the environment: XLA_SHMEM_<NAME>
};

const std::vector<Option>& OptionTable();

}  // namespace xla_shmem

#endif  // XLA_SHMEM_OPTIONS_TABLE_H_
