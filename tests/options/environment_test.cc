#include "xla_patch/options/environment.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

Result<EnvironmentOptions> Read(const std::map<std::string, std::string>& variables) {
  return ReadEnvironment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

// "A=1 ; B=2"
std::map<std::string, std::string> Variables(std::string text) {
  std::map<std::string, std::string> variables;
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
    CHECK(Text(Read(Variables(line.substr(0, arrow)))) == Filled(line.substr(arrow + 4)));
    ++count;
  }
  CHECK(count > 30);
}

TEST_CASE("the profile tuned is refused with the reason") {
  CHECK(Read({{"XLA_SHMEM_PROFILE", "tuned"}}).message() ==
        "XLA_SHMEM_PROFILE='tuned': must be 'upstream' or 'domain' in a patched jaxlib, which reads no tuning table.");
}

TEST_CASE("an environment without variables gives the values that the structs have by themselves") {
  const Result<EnvironmentOptions> read = Read({});
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
}

TEST_CASE("options of the CPU path are not read") {
  CHECK(Read({{"XLA_SHMEM_SPIN_US", "no number"}, {"XLA_SHMEM_TUNING", "/no/such/file"}}).ok());
}

}  // namespace
}  // namespace xla_shmem
