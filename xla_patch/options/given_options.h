// What a user has set, before any value is read: names that are no options, and options without an effect.
#ifndef XLA_SHMEM_OPTIONS_GIVEN_OPTIONS_H_
#define XLA_SHMEM_OPTIONS_GIVEN_OPTIONS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/options/table.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// The variables of an environment, by name.
using Variables = std::map<std::string, std::string>;

// The variables of this process whose names begin with this.
Variables VariablesOf(std::string_view prefix);

// "XLA_SHMEM_TRESHOLD is no option of xla-shmem; did you mean XLA_SHMEM_THRESHOLD?"
std::string NoSuchOption(std::string_view variable);

// An error for the first name that begins with XLA_SHMEM_ and is neither an option's nor one that xla-shmem itself
// passes on to processes, builds or tests.
Status CheckNames(const std::vector<std::string>& names);

// Who reads options in this process.
struct OptionReaders {
  bool cpu = false;             // the plugin, for XLA:CPU
  bool gpu = false;             // the plugin, for XLA:GPU
  bool patched_jaxlib = false;  // and nobody else
};

// An option that is set and certainly has no effect, and the reason: "only profile tuned reads it".
struct IdleOption {
  const Option* option;
  std::string reason;
};

// The first idle option; none if each may have an effect. A value that is the option's default is never idle, nor is
// what `xla-shmem launch` sets.
//
// `texts`: what the user wrote, by the option's name; texts that ReadOption refuses are left to it.
std::optional<IdleOption> FindIdleOption(const Variables& texts, const OptionReaders& readers);

// "has no effect, because <reason>; unset it."
std::string IdleSentence(const IdleOption& idle);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_OPTIONS_GIVEN_OPTIONS_H_
