#include "xla_patch/options/values.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kDigits = "0123456789";
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

std::string Strip(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  return text;
}

Status MustBe(std::string what) { return Status::Error(std::move(what)); }

// The digits at the start of `text`; they are removed from it. -1 if there are none, kMaxInt64 if they are too many.
int64_t TakeNumber(std::string* text) {
  const size_t count = std::min(text->find_first_not_of(kDigits), text->size());
  if (count == 0) return -1;
  int64_t number = 0;
  for (const char digit : text->substr(0, count)) {
    if (number > (kMaxInt64 - (digit - '0')) / 10) {
      number = kMaxInt64;
      break;
    }
    number = number * 10 + (digit - '0');
  }
  text->erase(0, count);
  return number;
}

// On every platform, so that the option means the same on all.
bool IsListable(const CollectiveOpInfo& info) { return info.Has(op_trait::kOnCpu | op_trait::kOnGpu); }

// The ops that a list may name: "all-reduce, collective-permute, ...".
std::string ListableOps() {
  std::string names;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (IsListable(info)) names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names;
}

Result<ConsideredOp> ReadOp(const Option& option, const std::string& text) {
  const size_t less = text.find('<');
  std::string name = Strip(text.substr(0, less));
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (!name.empty() && name == info.short_name) name = info.name;
  }
  const std::optional<CollectiveOp> op = OpNamed(name);
  if (!op.has_value() || !IsListable(InfoOf(*op))) return MustBe(option.values + " out of " + ListableOps());
  if (less == std::string::npos) return ConsideredOp{*op, std::nullopt};
  const Result<int64_t> limit = ReadSize(text.substr(less + 1));
  if (!limit.ok()) return MustBe("a list with, after " + name + "<, " + limit.message());
  return ConsideredOp{*op, *limit};
}

Result<OptionValue> ReadOps(const Option& option, const std::string& text) {
  std::vector<ConsideredOp> ops;
  if (text == "default") return OptionValue(ops);
  if (text == "none") {
    // An empty list stands for the default. No all-reduce is smaller than this limit.
    ops.push_back({CollectiveOp::kAllReduce, 0});
    return OptionValue(ops);
  }
  if (text == "all") {
    for (const CollectiveOpInfo& info : kCollectiveOps) {
      if (IsListable(info)) ops.push_back({info.op, std::nullopt});
    }
    return OptionValue(ops);
  }
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    const Result<ConsideredOp> op = ReadOp(option, text.substr(begin, end - begin));
    if (!op.ok()) return op.status();
    ops.push_back(*op);
  }
  std::sort(ops.begin(), ops.end(), [](const ConsideredOp& a, const ConsideredOp& b) { return a.op < b.op; });
  const auto repeated =
      std::adjacent_find(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.op == b.op; });
  if (repeated != ops.end()) return MustBe("a list that names every op once");
  return OptionValue(ops);
}

// The listed words in the order of the table, each once.
Result<OptionValue> ReadList(const Option& option, const std::string& text) {
  std::vector<bool> listed(option.words.size());
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string word = Strip(text.substr(begin, end - begin));
    const auto found = std::find_if(option.words.begin() + 1, option.words.end(),
                                    [&](const OptionWord& known) { return known.word == word; });
    if (found == option.words.end()) return MustBe(option.values);
    listed[found - option.words.begin()] = true;
  }
  std::string list;
  for (size_t i = 1; i < listed.size(); ++i) {
    if (listed[i]) list += (list.empty() ? "" : ",") + std::string(option.words[i].word);
  }
  return OptionValue(list);
}

// No hexadecimal numbers and no "nan". strtod returns infinity for a number beyond a double.
Result<OptionValue> ReadSeconds(const Option& option, const std::string& text) {
  if (text == "inf") return OptionValue(std::numeric_limits<double>::infinity());
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  const bool is_number = text.find_first_not_of("0123456789.e+-") == std::string::npos && !text.empty() && *end == '\0';
  if (!is_number || !(seconds > 0)) return MustBe(option.values);
  return OptionValue(seconds);
}

}  // namespace

Result<int64_t> ReadSize(const std::string& text) {
  std::string rest = Strip(text);
  const int64_t number = TakeNumber(&rest);
  const std::string unit = Lower(Strip(rest));
  int shift = -1;
  for (const auto& [name, bits] :
       {std::pair("", 0), {"b", 0}, {"k", 10}, {"kib", 10}, {"m", 20}, {"mib", 20}, {"g", 30}, {"gib", 30}}) {
    if (unit == name) shift = bits;
  }
  if (number < 0 || shift < 0) return MustBe("a size in bytes such as 16MiB, 4K or 65536");
  if (number > kMaxInt64 >> shift || number == kMaxInt64) return MustBe("a size below 2^63 bytes");
  return number << shift;
}

Result<OptionValue> ReadOption(const Option& option, const std::string& text) {
  std::string word = Lower(Strip(text));
  for (const OptionWord& known : option.words) {
    if (word != known.word) continue;
    if (option.type == OptionType::kList && word != option.words[0].word) break;
    if (option.type == OptionType::kChoice || option.type == OptionType::kList) return OptionValue(word);
    return known.value.has_value() ? OptionValue(*known.value) : OptionValue();
  }
  switch (option.type) {
    case OptionType::kChoice:
      return MustBe(option.values);
    case OptionType::kBytes: {
      const Result<int64_t> bytes = ReadSize(word);
      if (!bytes.ok() || *bytes < option.least) return MustBe(option.values);
      return OptionValue(*bytes);
    }
    case OptionType::kCount: {
      const int64_t number = TakeNumber(&word);
      if (!word.empty() || number < option.least || number > option.most) return MustBe(option.values);
      return OptionValue(number);
    }
    case OptionType::kSeconds:
      return ReadSeconds(option, word);
    case OptionType::kOps:
      return ReadOps(option, word);
    case OptionType::kList:
      return ReadList(option, word);
    case OptionType::kLibrary:
      if (text.find('/') == std::string::npos) return MustBe(option.values);
      return OptionValue(text);
    case OptionType::kJob:
      if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return MustBe(option.values);
      }
      return OptionValue(text);
    case OptionType::kPath:
    case OptionType::kTuning:
      return OptionValue(text);
  }
  return MustBe(option.values);
}

std::string OptionValueText(const OptionValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* seconds = std::get_if<double>(&value)) return std::to_string(*seconds);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* ops = std::get_if<std::vector<ConsideredOp>>(&value)) {
    std::string list;
    for (const ConsideredOp& considered : *ops) {
      list += (list.empty() ? "" : ",") + std::string(OpName(considered.op)) +
              (considered.limit.has_value() ? "<" + std::to_string(*considered.limit) : "");
    }
    return list.empty() ? "default" : list;
  }
  return "auto";
}

std::chrono::nanoseconds TimeLimit(double seconds) {
  constexpr double kMaxSeconds = 9e9;
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kMaxSeconds) * 1e9));
}

}  // namespace xla_shmem
