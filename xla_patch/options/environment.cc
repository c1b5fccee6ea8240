#include "xla_patch/options/environment.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kDigits = "0123456789";
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinHeapBytes = int64_t{8} << 20;

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

// A reader takes the text that the user wrote. Its error says what the value must be.
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

Result<int64_t> ReadThreshold(const std::string& text) {
  return Lower(Strip(text)) == "none" ? Result<int64_t>(kNoThreshold) : ReadSize(text);
}

Result<Profile> ReadProfile(const std::string& text) {
  const std::string word = Lower(Strip(text));
  if (word == "upstream" || word == "blog") return Profile::kUpstream;
  if (word == "domain") return Profile::kDomain;
  if (word == "tuned") {
    return MustBe("'upstream' or 'domain' in a patched jaxlib, which reads no tuning table");
  }
  return MustBe("'upstream', 'domain' or 'tuned'");
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
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

Result<ConsideredOp> ReadOp(const std::string& text) {
  const size_t less = text.find('<');
  std::string name = Strip(text.substr(0, less));
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (!name.empty() && name == info.short_name) name = info.name;
  }
  const std::optional<CollectiveOp> op = OpNamed(name);
  if (!op.has_value() || !IsListable(InfoOf(*op))) {
    return MustBe("'default', 'all' or a list such as all-reduce<16MiB,all-gather out of " + ListableOps());
  }
  if (less == std::string::npos) return ConsideredOp{*op, std::nullopt};
  const Result<int64_t> limit = ReadSize(text.substr(less + 1));
  if (!limit.ok()) return MustBe("a list with, after " + name + "<, " + limit.message());
  return ConsideredOp{*op, *limit};
}

Result<std::vector<ConsideredOp>> ReadOps(const std::string& text) {
  const std::string word = Lower(Strip(text));
  std::vector<ConsideredOp> ops;
  if (word == "default" || word == "blog") return ops;
  if (word == "all") {
    for (const CollectiveOpInfo& info : kCollectiveOps) {
      if (IsListable(info)) ops.push_back({info.op, std::nullopt});
    }
    return ops;
  }
  for (const std::string& part : Split(word, ',')) {
    const Result<ConsideredOp> op = ReadOp(part);
    if (!op.ok()) return op.status();
    ops.push_back(*op);
  }
  std::sort(ops.begin(), ops.end(), [](const ConsideredOp& a, const ConsideredOp& b) { return a.op < b.op; });
  const auto repeated =
      std::adjacent_find(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.op == b.op; });
  if (repeated != ops.end()) return MustBe("a list that names every op once");
  return ops;
}

Result<std::optional<int64_t>> ReadDomain(const std::string& text) {
  std::string word = Lower(Strip(text));
  if (word == "auto") return std::optional<int64_t>();
  if (word == "host") return std::optional<int64_t>(0);
  const int64_t devices = TakeNumber(&word);
  if (devices < 1 || devices > std::numeric_limits<int32_t>::max() || !word.empty()) {
    return MustBe("'auto', 'host' or a number of devices ≥ 1");
  }
  return std::optional<int64_t>(devices);
}

constexpr std::pair<Hierarchical, const char*> kHierarchicalWords[] = {
    {Hierarchical::kAuto, "auto"}, {Hierarchical::kOn, "on"}, {Hierarchical::kOff, "off"}};

Result<Hierarchical> ReadHierarchical(const std::string& text) {
  for (const auto& [value, word] : kHierarchicalWords) {
    if (Lower(Strip(text)) == word) return value;
  }
  return MustBe("'auto', 'on' or 'off'");
}

std::string HierarchicalWord(Hierarchical hierarchical) {
  for (const auto& [value, word] : kHierarchicalWords) {
    if (value == hierarchical) return word;
  }
  return "";
}

Result<GpuPermute> ReadGpuPermute(const std::string& text) {
  if (const auto found = GpuPermuteNamed(Lower(Strip(text))); found.has_value()) return *found;
  return MustBe("'auto', 'kernel' or 'copies'");
}

Result<std::optional<int64_t>> ReadHeapSize(const std::string& text) {
  if (Lower(Strip(text)) == "auto") return std::optional<int64_t>();
  const Result<int64_t> bytes = ReadSize(text);
  if (!bytes.ok() || *bytes < kMinHeapBytes) return MustBe("'auto' or a size of at least 8MiB");
  return std::optional<int64_t>(*bytes);
}

Result<std::chrono::nanoseconds> ReadDeadline(const std::string& text) {
  const std::string number = Strip(text);
  char* end = nullptr;
  const double seconds = std::strtod(number.c_str(), &end);
  // No hexadecimal numbers, "inf" or "nan".
  const bool is_number =
      number.find_first_not_of("0123456789.eE+-") == std::string::npos && !number.empty() && *end == '\0';
  constexpr double kMaxSeconds = 9e9;  // nanoseconds in an int64_t
  if (!is_number || !(seconds > 0) || !std::isfinite(seconds)) return MustBe("a number of seconds > 0");
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kMaxSeconds) * 1e9));
}

// True for the second word; the first is one that means the same as false.
Result<bool> ReadChoice(const std::string& text, const std::vector<std::string>& no, const std::string& yes) {
  const std::string word = Lower(Strip(text));
  if (word == yes) return true;
  if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  std::vector<std::string> words = no;
  words.insert(words.end() - (no.size() > 1 ? 1 : 0), yes);
  std::string sentence;
  for (size_t i = 0; i < words.size(); ++i) {
    sentence += (i == 0 ? "'" : i + 1 == words.size() ? " or '" : ", '") + words[i] + "'";
  }
  return MustBe(sentence);
}

Result<std::string> ReadLibrary(const std::string& text) {
  if (text.find('/') != std::string::npos) return text;
  return MustBe("a path with a / in it, such as /opt/nvshmem/lib/libnvshmem_host.so.3");
}

// Reads a variable into `value`, if it is set.
template <typename T, typename Reader>
Status ReadInto(const ReadVariable& read, const char* name, const Reader& reader, T* value) {
  const std::string text = read(name);
  if (text.empty()) return {};
  Result<T> result = reader(text);
  if (!result.ok()) return Status::Error(std::string(name) + "='" + text + "': must be " + result.message() + ".");
  *value = *std::move(result);
  return {};
}

std::string CountOr(const std::optional<int64_t>& count, const char* word) {
  return count.has_value() ? std::to_string(*count) : word;
}

}  // namespace

Result<EnvironmentOptions> ReadEnvironment(const ReadVariable& read) {
  EnvironmentOptions options;
  const auto read_puts = [](const std::string& text) { return ReadChoice(text, {"auto", "driver"}, "nvshmem"); };
  const auto read_reduce = [](const std::string& text) { return ReadChoice(text, {"kernel"}, "multimem"); };
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_PROFILE", ReadProfile, &options.rules.profile));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_THRESHOLD", ReadThreshold, &options.rules.threshold));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_OPS", ReadOps, &options.rules.ops));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_NVLINK_DOMAIN", ReadDomain, &options.nvlink_domain));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_HIERARCHICAL", ReadHierarchical, &options.rules.hierarchical));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_HEAP_SIZE", ReadHeapSize, &options.heap_bytes));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_DEADLINE", ReadDeadline, &options.deadline));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_NVSHMEM_LIBRARY", ReadLibrary, &options.nvshmem_library));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_GPU_PUTS", read_puts, &options.nvshmem_puts));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_GPU_PERMUTE", ReadGpuPermute, &options.gpu_permute));
  XLA_SHMEM_RETURN_IF_ERROR(ReadInto(read, "XLA_SHMEM_GPU_REDUCE", read_reduce, &options.multimem));
  return options;
}

std::string EnvironmentOptions::Agreement() const {
  std::string ops;
  for (const ConsideredOp& considered : rules.ops) {
    ops += (ops.empty() ? "" : ",") + std::string(OpName(considered.op)) +
           (considered.limit.has_value() ? "<" + std::to_string(*considered.limit) : "");
  }
  const std::string domain = nvlink_domain == 0 ? "host" : CountOr(nvlink_domain, "auto");
  return std::string("profile=") + (rules.profile == Profile::kDomain ? "domain" : "upstream") +
         " threshold=" + std::to_string(rules.threshold) + " ops=" + (ops.empty() ? "default" : ops) +
         " nvlink_domain=" + domain + " hierarchical=" + HierarchicalWord(rules.hierarchical) +
         " heap_size=" + CountOr(heap_bytes, "None") + " gpu_permute=" + GpuPermuteWord(gpu_permute) +
         " gpu_reduce=" + (multimem ? "multimem" : "kernel");
}

}  // namespace xla_shmem
