#include "xla_patch/options/environment.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "xla_patch/options/given_options.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

// "A=1 ; B=2"
Variables VariablesIn(std::string text) {
  Variables variables;
  while (!text.empty()) {
    const size_t end = text.find(" ; ");
    const std::string one = text.substr(0, end);
    variables[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
    text = end == std::string::npos ? "" : text.substr(end + 3);
  }
  return variables;
}

std::string Text(const Result<EnvironmentOptions>& read) {
  if (!read.ok()) {
    return "error: " + read.message();
  }
  std::ostringstream text;
  text << read->agreement << " deadline=" << std::chrono::duration<double>(read->deadline).count()
       << " puts=" << (read->nvshmem_puts ? "nvshmem" : "driver") << " library=" << read->nvshmem_library;
  return text.str();
}

// The names of all ops, with `separator` between them.
std::string AllOps(const std::string& separator) {
  std::string names;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    names += (names.empty() ? "" : separator) + info.name;
  }
  return names;
}

// `text` with its placeholders filled in.
std::string Filled(std::string text) {
  for (const auto& [placeholder, names] :
       {std::pair(std::string("{all ops}"), AllOps(",")), std::pair(std::string("{all ops, spaced}"), AllOps(", "))}) {
    const size_t at = text.find(placeholder);
    if (at != std::string::npos) {
      text.replace(at, placeholder.size(), names);
    }
  }
  return text;
}

TEST_CASE("options and errors are those that the plugin has") {
  std::ifstream cases(XLA_SHMEM_ENVIRONMENT_CASES);
  REQUIRE(cases.is_open());
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    const size_t arrow = line.find(" => ");
    if (line.empty() || line[0] == '#') {
      continue;
    }
    REQUIRE(arrow != std::string::npos);
    CAPTURE(line);
    CHECK(Text(ReadEnvironment(VariablesIn(line.substr(0, arrow)))) == Filled(line.substr(arrow + 4)));
    ++count;
  }
  CHECK(count > 30);
}

// A table of the options by default. `heap` takes the place of the heap's size.
std::string TableText(const std::string& platform, const std::string& heap) {
  return R"({"format": "xla-shmem tuning table", "version": 2, "complete": true, "platform": ")" + platform +
         R"(", "fingerprint": {"GPU": "H100", "XLA_SHMEM_HEAP_SIZE": ")" + heap +
         R"(", "XLA_SHMEM_GPU_PUTS": "auto", "XLA_SHMEM_GPU_PERMUTE": "auto", "XLA_SHMEM_GPU_REDUCE": "kernel"},
    "measured": {}, "rows": [{"op": "all-gather", "dtype": "f32", "group": 8, "bytes": 4096, "domains": 1,
    "nvshmem": {"median_us": 3, "low_us": 2, "high_us": 4, "programs": 9}, "default": null}]})";
}

// Reads profile tuned with a table of this text.
Result<EnvironmentOptions> Tuned(const std::string& text) {
  const std::string path = "environment_test_table.json";
  std::ofstream(path) << text;
  return ReadEnvironment({{"XLA_SHMEM_PROFILE", "tuned"}, {"XLA_SHMEM_TUNING", path}});
}

TEST_CASE("the profile tuned reads its table") {
  const Result<EnvironmentOptions> read = Tuned(TableText("gpu", "auto"));
  REQUIRE(read.ok());
  CHECK(read->rules.profile == Profile::kTuned);
  CHECK(read->rules.tuning.num_rows() == 1);
  // Processes with other tables do not agree.
  const Result<EnvironmentOptions> other = Tuned(TableText("gpu", "auto") + " ");
  REQUIRE(other.ok());
  CHECK(read->agreement != other->agreement);
  CHECK(Tuned(TableText("gpu", "auto"))->agreement == read->agreement);
  // It holds for the other platform.
  CHECK(Tuned(TableText("cpu", "auto"))->rules.tuning.num_rows() == 0);
}

TEST_CASE("a table that cannot be used is an error with the way out") {
  CHECK(Tuned(TableText("gpu", "1048576")).message() ==
        "XLA_SHMEM_TUNING='environment_test_table.json': was measured with XLA_SHMEM_HEAP_SIZE 1048576; here is "
        "XLA_SHMEM_HEAP_SIZE auto; run `xla-shmem tune` again, or choose another profile.");
  CHECK(Tuned("{}").message() ==
        "XLA_SHMEM_TUNING='environment_test_table.json': is not a tuning table (no \"format\": \"xla-shmem tuning "
        "table\"); run `xla-shmem tune` again.");
  CHECK(ReadEnvironment({{"XLA_SHMEM_PROFILE", "tuned"}, {"XLA_SHMEM_TUNING", "/no/such/file"}}).message() ==
        "XLA_SHMEM_TUNING='/no/such/file': there is no such file; `xla-shmem tune` writes one.");
}

TEST_CASE("an environment without variables gives the values that the structs have by themselves") {
  const Result<EnvironmentOptions> read = ReadEnvironment({});
  const EnvironmentOptions built;
  REQUIRE(read.ok());
  CHECK(read->rules.profile == built.rules.profile);
  CHECK(read->rules.threshold == built.rules.threshold);
  CHECK(read->rules.ops.size() == built.rules.ops.size());
  CHECK(read->rules.hierarchical == built.rules.hierarchical);
  CHECK(read->nvlink_domain == built.nvlink_domain);
  CHECK(read->heap_bytes == built.heap_bytes);
  CHECK(read->deadline == built.deadline);
  CHECK(read->nvshmem_puts == built.nvshmem_puts);
  CHECK(read->gpu_permute == built.gpu_permute);
  CHECK(read->multimem == built.multimem);
  CHECK(read->nvshmem_library == built.nvshmem_library);
  CHECK(read->statistics == built.statistics);
  CHECK(read->trace == built.trace);
  CHECK(read->records == "auto");
}

TEST_CASE(
    "an option that a patched jaxlib does not read is refused, unless it has its default or the launcher set it") {
  CHECK(ReadEnvironment({{"XLA_SHMEM_SPIN_US", "0"}}).message() ==
        "XLA_SHMEM_SPIN_US='0': has no effect, because a patched jaxlib does not read it; unset it.");
  CHECK(ReadEnvironment({{"XLA_SHMEM_TUNING", "/no/such/file"}}).message() ==
        "XLA_SHMEM_TUNING='/no/such/file': has no effect, because only profile tuned reads it; unset it.");
  CHECK(ReadEnvironment({{"XLA_SHMEM_SPIN_US", "100"}, {"XLA_SHMEM_VERBOSE", ""}}).ok());
  CHECK(ReadEnvironment({{"XLA_SHMEM_JOB", "0123456789abcdef0123456789abcdef"}}).ok());
}

}  // namespace
}  // namespace xla_shmem
