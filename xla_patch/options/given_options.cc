#include "xla_patch/options/given_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "xla_patch/options/values.h"

namespace xla_shmem {
namespace {

constexpr std::string_view kPrefix = "XLA_SHMEM_";

// Names with our prefix that are no options.
constexpr std::array<std::string_view, 8> kOtherNames = {
    "XLA_SHMEM_ENABLED",     // xla_flags.py sets it for child processes
    "XLA_SHMEM_LOCAL_RANK",  // `xla-shmem launch` sets these two
    "XLA_SHMEM_ENDS_PIPE",
    "XLA_SHMEM_TENSORFLOW",  // builds read these two
    "XLA_SHMEM_XLA",
    "XLA_SHMEM_FAULT_RUNS",  // tests read these three
    "XLA_SHMEM_FAULT_SEED", "XLA_SHMEM_STRESS_SECONDS",
};

bool HasPrefix(std::string_view name) { return name.substr(0, kPrefix.size()) == kPrefix; }

bool IsKnown(std::string_view name) {
  const std::vector<Option>& table = OptionTable();
  return std::find(kOtherNames.begin(), kOtherNames.end(), name) != kOtherNames.end() ||
         std::any_of(table.begin(), table.end(), [&](const Option& option) { return option.Variable() == name; });
}

// The number of characters to insert, remove or replace (V. I. Levenshtein, 1966).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

bool IsDefault(const Option& option, const OptionValue& value) {
  if (option.default_text.empty()) return false;
  const Result<OptionValue> standard = ReadOption(option, std::string(option.default_text));
  return standard.ok() && OptionValueText(value) == OptionValueText(*standard);
}

// "" if somebody reads the option.
std::string WhyNotRead(const Option& option, const OptionReaders& readers) {
  if (readers.patched_jaxlib) {
    return option.Has(option_trait::kPatchedJaxlib) ? "" : "a patched jaxlib does not read it";
  }
  if ((readers.cpu && option.Has(option_trait::kOnCpu)) || (readers.gpu && option.Has(option_trait::kOnGpu))) return "";
  return option.Has(option_trait::kOnGpu) ? "this process uses no GPU" : "JAX_PLATFORMS leaves the CPU out";
}

}  // namespace

Variables VariablesOf(std::string_view prefix) {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.substr(0, prefix.size()) != prefix) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string NoSuchOption(std::string_view variable) {
  std::string nearest;
  size_t smallest = 0;
  const std::string_view name = variable.substr(std::min(kPrefix.size(), variable.size()));
  for (const Option& option : OptionTable()) {
    const std::string known = option.Variable();
    const size_t distance = Distance(name, std::string_view(known).substr(kPrefix.size()));
    // Half of its letters may differ.
    if (2 * distance > std::max(name.size(), option.name.size())) continue;
    if (nearest.empty() || distance < smallest) {
      nearest = known;
      smallest = distance;
    }
  }
  return std::string(variable) + " is no option of xla-shmem; " +
         (nearest.empty() ? "unset it. `xla-shmem options` lists the options." : "did you mean " + nearest + "?");
}

Status CheckNames(const std::vector<std::string>& names) {
  // The smallest, so that all ranks report the same one.
  std::optional<std::string> unknown;
  for (const std::string& name : names) {
    if (HasPrefix(name) && !IsKnown(name) && (!unknown.has_value() || name < *unknown)) unknown = name;
  }
  return unknown.has_value() ? Status::Error(NoSuchOption(*unknown)) : Status();
}

std::optional<IdleOption> FindIdleOption(const Variables& texts, const OptionReaders& readers) {
  std::string profile = "upstream";
  for (const Option& option : OptionTable()) {
    const auto text = texts.find(std::string(option.name));
    if (text == texts.end() || text->second.empty() || option.type == OptionType::kJob) continue;
    const Result<OptionValue> value = ReadOption(option, text->second);
    if (!value.ok() || IsDefault(option, *value)) continue;
    if (option.name == "profile") profile = OptionValueText(*value);  // the first row
    std::string reason = WhyNotRead(option, readers);
    if (reason.empty() && option.type == OptionType::kTuning && profile != "tuned") {
      reason = "only profile tuned reads it";
    }
    if (reason.empty() && option.name == "threshold" && profile == "tuned") reason = "profile tuned ignores it";
    if (!reason.empty()) return IdleOption{&option, std::move(reason)};
  }
  return std::nullopt;
}

std::string IdleSentence(const IdleOption& idle) { return "has no effect, because " + idle.reason + "; unset it."; }

}  // namespace xla_shmem
