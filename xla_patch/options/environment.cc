#include "xla_patch/options/environment.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "xla_patch/assigner/tuning_file.h"
#include "xla_patch/options/table.h"
#include "xla_patch/options/values.h"
#include "xla_patch/types/json_text.h"
#include "xla_patch/types/stable_hash.h"

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
  const OptionValue& Any(std::string_view name) const { return values_.at(name); }
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

// Of a list of words, or of "default".
Ways WaysOf(std::string_view list) {
  Ways ways = 0;
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = list.find(',', begin);
    if (const std::optional<Way> way = WayOfWord(list.substr(begin, end - begin)); way.has_value()) ways |= BitOf(*way);
  }
  return ways == 0 ? kEveryWay : ways;
}

Profile ProfileOf(const std::string& word) {
  if (word == "tuned") return Profile::kTuned;
  return word == "domain" ? Profile::kDomain : Profile::kUpstream;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DefaultTablePath() {
  // The XDG Base Directory Specification says that relative paths are to be ignored.
  const std::string base = Environment("XDG_CONFIG_HOME");
  return (!base.empty() && base[0] == '/' ? base : Environment("HOME") + "/.config") + "/xla-shmem/tuning.json";
}

// Which options of the transport had another value when the times were measured; "" for none.
std::string DifferencesFrom(std::string_view fingerprint, const Values& values) {
  std::string measured, here;
  for (const Option& option : OptionTable()) {
    if (!option.Has(option_trait::kPatchedJaxlib) || !option.Has(option_trait::kChangesTimes)) continue;
    std::string_view text, found;
    const bool is_given = FindMember(fingerprint, option.Variable(), &text) && JsonCursor(text).String(&found);
    const std::string value = OptionValueText(values.Any(option.name));
    if (is_given && found == value) continue;
    for (std::string* const list : {&measured, &here}) {
      if (!list->empty()) list->append(", ");
      list->append(option.Variable()).append(" ");
    }
    measured.append(is_given ? found : "unknown");
    here.append(value);
  }
  return measured.empty() ? "" : "was measured with " + measured + "; here is " + here;
}

// Reads the table of profile tuned.
Status ReadTable(const Values& values, EnvironmentOptions* options) {
  const std::string& given = values.Text("tuning");
  const std::string path = given.empty() ? DefaultTablePath() : given;
  const std::string named = given.empty() ? "the tuning table " + path + ": " : "XLA_SHMEM_TUNING='" + path + "': ";
  std::ifstream file(path);
  if (!file.is_open()) return Status::Error(named + "there is no such file; `xla-shmem tune` writes one.");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Result<TuningFile> read = ReadTuningFile(text);
  if (!read.ok()) return Status::Error(named + read.message());
  const std::string different = DifferencesFrom(read->fingerprint, values);
  if (!different.empty()) {
    return Status::Error(named + different + "; run `xla-shmem tune` again, or choose another profile.");
  }
  if (read->platform == "gpu") options->rules.tuning = std::move(read->table);
  options->agreement += " tuning=" + std::to_string(HashBytes(0, text));
  return {};
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
    if (!value.ok()) return Status::Error(option.Variable() + "='" + text + "': must be " + value.message() + ".");
    if (option.Has(option_trait::kEqualOnRanks)) {
      options.agreement +=
          (options.agreement.empty() ? "" : " ") + std::string(option.name) + "=" + OptionValueText(*value);
    }
    values.Set(option, *std::move(value));
  }
  options.rules.profile = ProfileOf(values.Text("profile"));
  options.rules.threshold = values.Number("threshold").value_or(kNoThreshold);
  options.rules.ops = values.Ops("ops");
  options.rules.ways = WaysOf(values.Text("backends"));
  options.rules.hierarchical = HierarchicalOf(values.Text("hierarchical"));
  options.nvlink_domain = values.Number("nvlink_domain");
  options.heap_bytes = values.Number("heap_size");
  options.deadline = TimeLimit(values.Seconds("deadline"));
  options.driver_heap = values.Text("gpu_heap") == "driver";
  options.nvshmem_puts = values.Text("gpu_puts") == "nvshmem";
  options.gpu_permute = GpuPermuteNamed(values.Text("gpu_permute")).value_or(GpuPermute::kAuto);
  options.multimem = values.Text("gpu_reduce") == "multimem";
  options.nvshmem_library = values.Text("nvshmem_library");
  options.statistics = values.Number("stats") == 1;
  options.trace = values.Text("trace");
  options.records = values.Text("records");
  if (options.rules.profile == Profile::kTuned) XLA_SHMEM_RETURN_IF_ERROR(ReadTable(values, &options));
  return options;
}

}  // namespace xla_shmem
