#include "xla_patch/options/environment.h"

#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "xla_patch/options/table.h"
#include "xla_patch/options/values.h"

namespace xla_shmem {
namespace {

class Values {
 public:
  void Set(const Option& option, OptionValue value) { values_[option.name] = std::move(value); }

  const std::string& Text(std::string_view name) const { return std::get<std::string>(values_.at(name)); }
  double Seconds(std::string_view name) const { return std::get<double>(values_.at(name)); }
  const std::vector<ConsideredOp>& Ops(std::string_view name) const {
    return std::get<std::vector<ConsideredOp>>(values_.at(name));
  }
  std::optional<int64_t> Number(std::string_view name) const {
    const auto* number = std::get_if<int64_t>(&values_.at(name));
    return number == nullptr ? std::nullopt : std::optional<int64_t>(*number);
  }

 private:
  std::unordered_map<std::string_view, OptionValue> values_;
};

// The text of an option; "" if its variable is not set.
std::string TextOf(const Option& option, const Variables& variables) {
  const auto found = variables.find(option.Variable());
  return found == variables.end() ? "" : found->second;
}

// An error if a name is no option, or an option has no effect here.
Status CheckGiven(const Variables& variables) {
  std::vector<std::string> names;
  for (const auto& [name, text] : variables) {
    if (!text.empty()) names.push_back(name);
  }
  XLA_SHMEM_RETURN_IF_ERROR(CheckNames(names));
  Variables texts;
  for (const Option& option : OptionTable()) texts.emplace(option.name, TextOf(option, variables));
  OptionReaders readers;
  readers.patched_jaxlib = true;
  const std::optional<IdleOption> idle = FindIdleOption(texts, readers);
  if (!idle.has_value()) return {};
  const std::string source = idle->option->Variable();
  return Status::Error(source + "='" + TextOf(*idle->option, variables) + "': " + IdleSentence(*idle));
}

Hierarchical HierarchicalOf(const std::string& word) {
  if (word == "on") return Hierarchical::kOn;
  return word == "off" ? Hierarchical::kOff : Hierarchical::kAuto;
}

}  // namespace

Result<EnvironmentOptions> ReadEnvironment(const Variables& variables) {
  XLA_SHMEM_RETURN_IF_ERROR(CheckGiven(variables));
  Values values;
  EnvironmentOptions options;
  for (const Option& option : OptionTable()) {
    if (!option.Has(option_trait::kPatchedJaxlib)) continue;
    std::string text = TextOf(option, variables);
    if (text.empty()) text = option.default_text;
    Result<OptionValue> value = text.empty() ? OptionValue(text) : ReadOption(option, text);
    if (option.name == "profile" && value.ok() && std::get<std::string>(*value) == "tuned") {
      value = Status::Error("'upstream' or 'domain' in a patched jaxlib, which reads no tuning table");
    }
    if (!value.ok()) return Status::Error(option.Variable() + "='" + text + "': must be " + value.message() + ".");
    if (option.Has(option_trait::kEqualOnRanks)) {
      options.agreement +=
          (options.agreement.empty() ? "" : " ") + std::string(option.name) + "=" + OptionValueText(*value);
    }
    values.Set(option, *std::move(value));
  }
  options.rules.profile = values.Text("profile") == "domain" ? Profile::kDomain : Profile::kUpstream;
  options.rules.threshold = values.Number("threshold").value_or(kNoThreshold);
  options.rules.ops = values.Ops("ops");
  options.rules.hierarchical = HierarchicalOf(values.Text("hierarchical"));
  options.nvlink_domain = values.Number("nvlink_domain");
  options.heap_bytes = values.Number("heap_size");
  options.deadline = TimeLimit(values.Seconds("deadline"));
  options.nvshmem_puts = values.Text("gpu_puts") == "nvshmem";
  options.gpu_permute = GpuPermuteNamed(values.Text("gpu_permute")).value_or(GpuPermute::kAuto);
  options.multimem = values.Text("gpu_reduce") == "multimem";
  options.nvshmem_library = values.Text("nvshmem_library");
  return options;
}

}  // namespace xla_shmem
