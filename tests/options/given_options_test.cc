#include "xla_patch/options/given_options.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace xla_shmem {
namespace {

constexpr OptionReaders kOnCpu = {true, false, false};
constexpr OptionReaders kOnGpu = {false, true, false};
constexpr OptionReaders kOnBoth = {true, true, false};

// "name: reason", or "" if each option may have an effect.
std::string Idle(const Variables& texts, const OptionReaders& readers) {
  const std::optional<IdleOption> idle = FindIdleOption(texts, readers);
  return idle.has_value() ? std::string(idle->option->name) + ": " + idle->reason : "";
}

TEST_CASE("a name that is no option is refused, with the option that is nearest") {
  CHECK(CheckNames({"PATH", "XLA_SHMEM_OPS", "XLA_SHMEM_TRESHOLD"}).message() ==
        "XLA_SHMEM_TRESHOLD is no option of xla-shmem; did you mean XLA_SHMEM_THRESHOLD?");
  CHECK(NoSuchOption("XLA_SHMEM_SPIN") == "XLA_SHMEM_SPIN is no option of xla-shmem; did you mean XLA_SHMEM_SPIN_US?");
  CHECK(NoSuchOption("XLA_SHMEM_GPU_PERMUT").find("did you mean XLA_SHMEM_GPU_PERMUTE?") != std::string::npos);
  CHECK(NoSuchOption("XLA_SHMEM_GPU_PUT").find("did you mean XLA_SHMEM_GPU_PUTS?") != std::string::npos);
  CHECK(NoSuchOption("XLA_SHMEM_COFFEE") ==
        "XLA_SHMEM_COFFEE is no option of xla-shmem; unset it. `xla-shmem options` lists the options.");
}

TEST_CASE("of several names that are no options, all ranks report the smallest") {
  const std::string first = CheckNames({"XLA_SHMEM_OPZ", "XLA_SHMEM_DEADLINES"}).message();
  CHECK(first == CheckNames({"XLA_SHMEM_DEADLINES", "XLA_SHMEM_OPZ"}).message());
  CHECK(first.find("XLA_SHMEM_DEADLINES is") == 0);
}

TEST_CASE("names that processes, builds and tests pass on are allowed") {
  CHECK(CheckNames({"XLA_SHMEM_ENABLED", "XLA_SHMEM_LOCAL_RANK", "XLA_SHMEM_JOB", "XLA_SHMEM_TENSORFLOW",
                    "XLA_SHMEM_FAULT_RUNS", "MY_XLA_SHMEM_OPTION"})
            .ok());
  for (const Option& option : OptionTable()) CHECK(CheckNames({option.Variable()}).ok());
}

TEST_CASE("an option of a platform that is not there has no effect") {
  CHECK(Idle({{"gpu_permute", "copies"}}, kOnCpu) == "gpu_permute: this process uses no GPU");
  CHECK(Idle({{"spin_us", "0"}}, kOnGpu) == "spin_us: JAX_PLATFORMS leaves the CPU out");
  CHECK(Idle({{"gpu_permute", "copies"}, {"spin_us", "0"}}, kOnBoth).empty());
}

TEST_CASE("a table has no effect without profile tuned, nor a threshold with it") {
  CHECK(Idle({{"tuning", "/a"}}, kOnCpu) == "tuning: only profile tuned reads it");
  CHECK(Idle({{"tuning", "/a"}, {"profile", " Tuned"}}, kOnCpu).empty());
  CHECK(Idle({{"threshold", "1M"}, {"profile", "tuned"}}, kOnBoth) == "threshold: profile tuned ignores it");
  CHECK(Idle({{"threshold", "1M"}, {"profile", "domain"}}, kOnBoth).empty());
}

TEST_CASE("defaults, wrong values and what the launcher sets are never without effect") {
  CHECK(Idle({{"gpu_permute", "AUTO"}, {"gpu_reduce", "kernel"}}, kOnCpu).empty());
  CHECK(Idle({{"gpu_permute", "fast"}}, kOnCpu).empty());
  CHECK(Idle({{"spin_us", ""}, {"job", "0123456789abcdef0123456789abcdef"}}, kOnGpu).empty());
}

TEST_CASE("the variables of this process are those with our prefix") {
  setenv("XLA_SHMEM_SPIN_US", "a=b", 1);
  setenv("NOT_XLA_SHMEM", "1", 1);
  const Variables own = VariablesOf("XLA_SHMEM_");
  unsetenv("XLA_SHMEM_SPIN_US");
  CHECK(own.at("XLA_SHMEM_SPIN_US") == "a=b");
  CHECK(own.count("NOT_XLA_SHMEM") == 0);
}

}  // namespace
}  // namespace xla_shmem
