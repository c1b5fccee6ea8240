#include "xla_patch/options/values.h"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <set>
#include <string>

#include "xla_patch/options/table.h"

namespace xla_shmem {
namespace {

TEST_CASE("the names of options are unique, and the variable is the name in capitals") {
  std::set<std::string> variables;
  for (const Option& option : OptionTable()) {
    CHECK(variables.insert(option.Variable()).second);
  }
  CHECK(variables.count("XLA_SHMEM_NVLINK_DOMAIN") == 1);
}

TEST_CASE("every default, example and word is a value of its option") {
  for (const Option& option : OptionTable()) {
    CAPTURE(option.name);
    CHECK(ReadOption(option, std::string(option.example)).ok());
    CHECK((option.default_text.empty() || ReadOption(option, std::string(option.default_text)).ok()));
    for (const OptionWord& word : option.words) {
      CHECK(ReadOption(option, std::string(word.word)).ok());
    }
  }
}

TEST_CASE("numbers outside their limits are refused, and the error has the limits") {
  for (const Option& option : OptionTable()) {
    CAPTURE(option.name);
    if (option.type != OptionType::kBytes && option.type != OptionType::kCount) {
      continue;
    }
    CHECK(ReadOption(option, std::to_string(option.least)).ok());
    CHECK(ReadOption(option, std::to_string(option.most)).ok() == (option.most < std::numeric_limits<int64_t>::max()));
    CHECK(ReadOption(option, std::to_string(option.least - 1)).message() == option.values);
    if (option.type == OptionType::kCount) {
      CHECK(ReadOption(option, std::to_string(option.most + 1)).message() == option.values);
      CHECK(option.values.find(std::to_string(option.least)) != std::string::npos);
    }
  }
}

TEST_CASE("values of one option have equal texts only if they are equal") {
  for (const Option& option : OptionTable()) {
    CAPTURE(option.name);
    std::set<std::string> texts;
    for (const OptionWord& word : option.words) {
      CHECK(texts.insert(OptionValueText(*ReadOption(option, std::string(word.word)))).second);
    }
  }
}

TEST_CASE("a time limit that nanoseconds cannot hold is no limit, and the time now can be added to it") {
  using std::chrono::nanoseconds;
  CHECK(TimeLimit(2.5) == nanoseconds(2'500'000'000));
  const nanoseconds none = TimeLimit(std::numeric_limits<double>::infinity());
  CHECK(none > std::chrono::hours(24 * 365 * 200));
  for (const double seconds : {1e10, 1e12, 1e300}) {
    CHECK(TimeLimit(seconds) == none);
  }
  CHECK(std::chrono::steady_clock::now() + none > std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace xla_shmem
