#include "xla_patch/options/table.h"

#include <limits>
#include <utility>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/way.h"

namespace xla_shmem {
namespace {

using option_trait::kChangesTimes;
using option_trait::kDecides;
using option_trait::kEqualOnRanks;
using option_trait::kInTools;
using option_trait::kOnCpu;
using option_trait::kOnGpu;
using option_trait::kPatchedJaxlib;

constexpr int64_t kMaxDevices = std::numeric_limits<int32_t>::max();
constexpr int64_t kMinHeapBytes = int64_t{8} << 20;

// "'auto', 'host' or <other>"; without `other` the last word follows "or".
std::string Either(const std::vector<OptionWord>& words, const std::string& other = "") {
  std::vector<std::string> parts;
  parts.reserve(words.size() + 1);
  for (const OptionWord& word : words) parts.push_back("'" + std::string(word.word) + "'");
  if (!other.empty()) parts.push_back(other);
  std::string sentence;
  for (size_t i = 0; i < parts.size(); ++i) {
    sentence += (i == 0 ? "" : i + 1 == parts.size() ? " or " : ", ") + parts[i];
  }
  return sentence;
}

// The parts that all types have, in the order of the rows below: name, default, example, traits.
Option Row(OptionType type, std::string_view name, std::string_view default_text, std::string_view example,
           uint32_t traits, std::string values, std::string_view text) {
  Option option;
  option.name = name;
  option.type = type;
  option.default_text = default_text;
  option.example = example;
  option.traits = traits;
  option.values = std::move(values);
  option.text = text;
  return option;
}

Option Choice(std::string_view name, std::string_view default_text, std::string_view example, uint32_t traits,
              std::vector<OptionWord> words, std::string_view text) {
  Option option = Row(OptionType::kChoice, name, default_text, example, traits, Either(words), text);
  option.words = std::move(words);
  return option;
}

Option Bytes(std::string_view name, std::string_view default_text, std::string_view example, uint32_t traits,
             std::vector<OptionWord> words, int64_t least, std::string_view text) {
  const std::string size = least > 0 ? "a size of at least " + std::to_string(least >> 20) + "MiB"
                                     : "a size below 2^63 bytes such as 16MiB, 4K or 65536";
  Option option = Row(OptionType::kBytes, name, default_text, example, traits, Either(words, size), text);
  option.words = std::move(words);
  option.least = least;
  option.most = std::numeric_limits<int64_t>::max();
  return option;
}

Option Count(std::string_view name, std::string_view default_text, std::string_view example, uint32_t traits,
             std::vector<OptionWord> words, int64_t least, int64_t most, const std::string& what,
             std::string_view text) {
  const std::string number = most == kMaxDevices
                                 ? what + " ≥ " + std::to_string(least)
                                 : what + " from " + std::to_string(least) + " to " + std::to_string(most);
  Option option = Row(OptionType::kCount, name, default_text, example, traits, Either(words, number), text);
  option.words = std::move(words);
  option.least = least;
  option.most = most;
  return option;
}

// The ways of running a collective, or what profile and machine suggest.
Option Backends() {
  Option option =
      Row(OptionType::kList, "backends", "default", "nvshmem,one-sided",
          kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks, "",
          "[Ways](comparison.md) that may be chosen besides XLA's choice. Profiles `upstream` and `domain` choose "
          "`nvshmem` only, `tuned` any that was measured. `default`: all.");
  option.words = {{"default"}};
  for (const WayInfo& info : kWays) option.words.push_back({info.word});
  std::string words;
  for (const WayInfo& info : kWays) words += (words.empty() ? "" : ", ") + std::string(info.word);
  option.values = "'default' or a list out of " + words;
  return option;
}

std::vector<Option> Rows() {
  return {
      Choice("profile", "upstream", "domain", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks,
             {{"upstream"}, {"domain"}, {"tuned"}},
             "Rules that choose the backend. `upstream` decides as XLA did. `domain` requires that each group lies in "
             "one NVLink domain, and asks the cost model on Hopper and Blackwell. `tuned` requires the same and takes "
             "what `xla-shmem tune` measured to be faster."),
      Bytes("threshold", "16MiB", "64MiB", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks,
            {{"none", kNoThreshold}}, 0,
            "All-reduces of this size or larger stay on the default backend, unless `ops` gives a limit for them. "
            "Profile `tuned` ignores it. Another value replaces the cost model."),
      Row(OptionType::kOps, "ops", "default", "all-reduce<16MiB,all-gather",
          kOnCpu | kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks,
          "'default', 'all', 'none' or a list such as all-reduce<16MiB,all-gather",
          "Collectives that may leave the default backend, each with an optional limit on its result's bytes. "
          "`default`: all-reduce and collective-permute, or all that profile `tuned` has measured. `permute` and "
          "`broadcast` are short names."),
      Backends(),
      Row(OptionType::kTuning, "tuning", "", "tables/node.json", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib, "a path",
          "The table of profile `tuned`. Unset: `xla-shmem/tuning.json` in `XDG_CONFIG_HOME` or `~/.config`."),
      Count("nvlink_domain", "auto", "8", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks,
            {{"auto"}, {"host", 0}}, 1, kMaxDevices, "a number of devices",
            "Devices of each NVLink domain, in device order; `host`: one domain a host. `auto`: `host` on CPU, what "
            "the driver reports on GPU."),
      Choice("hierarchical", "auto", "on", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib | kDecides | kEqualOnRanks,
             {{"auto"}, {"on"}, {"off"}},
             "Whether collectives that cross NVLink domains (on CPU: hosts) are divided: SHMEM within, the "
             "default backend between them. `auto`: on CPU if measurements (profile `tuned`) or a model expect a gain, "
             "on GPU never."),
      Bytes("heap_size", "auto", "256MiB", kOnCpu | kOnGpu | kPatchedJaxlib | kChangesTimes | kEqualOnRanks, {{"auto"}},
            kMinHeapBytes,
            "Symmetric heap of each process. `auto`: on CPU 64 MiB, or less if /dev/shm is small; on GPU 36 MiB for "
            "each other PE, 20 MiB in jobs of more than eight."),
      Row(OptionType::kSeconds, "deadline", "inf", "600", kOnCpu | kOnGpu | kPatchedJaxlib,
          "a number of seconds > 0, or inf",
          "Limit on a collective's time without progress. `inf`: it waits for late processes and names them."),
      Count("spin_us", "100", "0", kOnCpu | kChangesTimes, {}, 0, 1000000, "a whole number of microseconds",
            "How long a waiting collective polls, yielding its core, before it sleeps; large ones longer."),
      Choice("single_copy", "auto", "off", kOnCpu | kChangesTimes, {{"auto"}, {"off"}, {"user"}},
             "Whether a process reads large messages directly from its peers' memory. `auto`: if it is permitted "
             "and faster. Where `kernel.yama.ptrace_scope` is 1, `auto` permits it to the launcher's processes, "
             "`user` to all of the user's."),
      Count("verbose", "0", "1", kOnCpu | kOnGpu, {}, 0, 2, "a whole number",
            "Messages of the logger `xla_shmem` on stderr: 1, rank 0's decisions; 2 also the runtime's steps."),
      Count("stats", "0", "1", kOnCpu | kOnGpu | kPatchedJaxlib, {}, 0, 1, "a whole number",
            "1 prints at exit calls, bytes and times of each collective."),
      Row(OptionType::kPath, "trace", "", "trace.json", kOnCpu | kOnGpu | kPatchedJaxlib, "a path",
          "Trace of all collectives, for Perfetto. All processes of a host write it."),
      Row(OptionType::kPath, "records", "auto", "/scratch/records", kOnCpu | kOnGpu | kInTools | kPatchedJaxlib,
          "'auto', 'off' or a directory",
          "Folder of each PE's last collectives, for `xla-shmem postmortem`. `auto`: "
          "`xla-shmem-<uid>` among the temporary files. A job that ends well removes them."),
      Choice("default_records", "on", "off", kOnCpu, {{"on"}, {"off"}},
             "Whether collectives on gloo or MPI are recorded too, and late ranks named."),
      Row(OptionType::kLibrary, "nvshmem_library", "", "/opt/nvshmem/lib/libnvshmem_host.so.3",
          kOnGpu | kInTools | kPatchedJaxlib, "a path with a / in it, such as /opt/nvshmem/lib/libnvshmem_host.so.3",
          "NVSHMEM's host library. Unset: the one in NVIDIA's wheels, `LD_LIBRARY_PATH` or the CUDA toolkit."),
      Choice("gpu_heap", "auto", "driver", kOnGpu | kPatchedJaxlib | kEqualOnRanks, {{"auto"}, {"nvshmem"}, {"driver"}},
             "What makes the memory that GPUs share. `auto`: NVSHMEM if each process has one GPU and can load it, else "
             "the CUDA driver."),
      Choice("gpu_puts", "auto", "nvshmem", kOnGpu | kPatchedJaxlib | kChangesTimes,
             {{"auto"}, {"nvshmem"}, {"driver"}},
             "What makes puts and signals: NVSHMEM's on-stream calls, or copies by the CUDA driver. `auto` is "
             "`driver`."),
      Choice("gpu_permute", "auto", "copies", kOnGpu | kPatchedJaxlib | kChangesTimes | kEqualOnRanks,
             {{"auto"}, {"kernel"}, {"copies"}},
             "What carries overlapped permutes: one kernel, or copies and stream operations, which use fewer SMs."),
      Choice("gpu_reduce", "kernel", "multimem", kOnGpu | kPatchedJaxlib | kChangesTimes | kEqualOnRanks,
             {{"kernel"}, {"multimem"}},
             "What reduces, and gathers: kernels, or the NVLink switch (NVLink SHARP) for groups of all GPUs of a "
             "domain."),
      Row(OptionType::kJob, "job", "", "0123456789abcdef0123456789abcdef", kOnCpu | kInTools,
          "32 lower-case hexadecimal digits, as set by `xla-shmem launch`",
          "By it `launch` removes the shared memory of killed ranks."),
  };
}

}  // namespace

const char* OptionTypeName(OptionType type) {
  switch (type) {
    case OptionType::kChoice:
      return "choice";
    case OptionType::kBytes:
      return "bytes";
    case OptionType::kCount:
      return "count";
    case OptionType::kSeconds:
      return "seconds";
    case OptionType::kOps:
      return "ops";
    case OptionType::kList:
      return "list";
    case OptionType::kPath:
      return "path";
    case OptionType::kLibrary:
      return "library";
    case OptionType::kJob:
      return "job";
    case OptionType::kTuning:
      return "tuning";
  }
  return "";
}

std::string Option::Variable() const {
  std::string variable = "XLA_SHMEM_";
  for (const char c : name) variable += c == '_' ? c : static_cast<char>(c - 'a' + 'A');
  return variable;
}

const std::vector<Option>& OptionTable() {
  static const auto* const table = new std::vector<Option>(Rows());  // leaked on purpose: used until the process ends
  return *table;
}

}  // namespace xla_shmem
