#include "xla_patch/types/status.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

namespace xla_shmem {
namespace {

TEST_CASE("a default Status is a success without a message") {
  const Status status;
  CHECK(status.ok());
  CHECK(status.message().empty());
}

TEST_CASE("an error keeps its message") {
  const Status status = Status::Error("group 3 names device 9 of 8");
  CHECK_FALSE(status.ok());
  CHECK(status.message() == "group 3 names device 9 of 8");
}

TEST_CASE("a Result holds a value that can be moved out") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  REQUIRE(result.ok());
  CHECK(result.message().empty());
  const std::unique_ptr<int> value = *std::move(result);
  CHECK(*value == 7);
}

// Counts its copies.
struct Counted {
  Counted() = default;
  Counted(const Counted& other) : copies(other.copies + 1) {}
  Counted(Counted&&) = default;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() = default;
  int copies = 0;
};

TEST_CASE("returning a local variable as a Result moves it") {
  const auto make = []() -> Result<Counted> {
    Counted counted;
    return counted;
  };
  CHECK(make()->copies == 0);
}

TEST_CASE("a Result holds the error instead of a value") {
  const Result<std::string> result = Status::Error("no such op");
  CHECK_FALSE(result.ok());
  CHECK(result.message() == "no such op");
}

TEST_CASE("XLA_SHMEM_RETURN_IF_ERROR passes an error on and lets a success go on") {
  const auto outcome = [](const Status& inner) -> Status {
    XLA_SHMEM_RETURN_IF_ERROR(inner);
    return Status::Error("went on");
  };
  CHECK(outcome(Status::Error("stopped")).message() == "stopped");
  CHECK(outcome(Status()).message() == "went on");
}

}  // namespace
}  // namespace xla_shmem
