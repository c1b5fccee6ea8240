#include "xla_patch/assigner/tuning_file.h"

#include <doctest/doctest.h>

#include <string>

namespace xla_shmem {
namespace {

constexpr const char* kRow = R"({"op": "all-reduce", "dtype": "bf16", "group": 8, "bytes": 4096,
    "nvshmem": {"median_us": 3.5, "low_us": 2, "high_us": 4e1, "programs": 9},
    "default": {"median_us": 7, "low_us": 7, "high_us": 7, "programs": 1}, "domains": 2})";

// A whole table whose text `from` is replaced by `to`.
std::string Table(const std::string& from = "", const std::string& to = "") {
  std::string text = std::string(R"({
    "format": "xla-shmem tuning table", "version": 2, "complete": true, "platform": "gpu",
    "fingerprint": {"GPU": "H100"}, "measured": {"load": [1, {"a": "}"}]}, "rows": [)") +
                     kRow + "]}";
  const size_t at = from.empty() ? 0 : text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string Error(const std::string& text) { return ReadTuningFile(text).message(); }

TEST_CASE("a table has the rows of its file") {
  const std::string text = Table();
  const Result<TuningFile> file = ReadTuningFile(text);
  REQUIRE(file.ok());
  CHECK(file->platform == "gpu");
  CHECK(file->fingerprint == R"({"GPU": "H100"})");
  const auto found = file->table.Find(CollectiveOp::kAllReduce, ElementType::kBf16, 8, 4096, 2);
  REQUIRE(found.has_value());
  CHECK(found->nvshmem.us == 3.5);
  CHECK(found->nvshmem.high_us == 40);
  CHECK(found->on_default.low_us == 7);
  CHECK(found->domains == 2);
}

TEST_CASE("a backend that runs none takes for ever, and version 1 has one domain") {
  const std::string rest = R"({"median_us": 7, "low_us": 7, "high_us": 7, "programs": 1}, "domains": 2)";
  const std::string text = Table(rest, "null");
  const Result<TuningFile> file = ReadTuningFile(text);
  REQUIRE(file.ok());
  const auto found = file->table.Find(CollectiveOp::kAllReduce, ElementType::kBf16, 8, 4096);
  REQUIRE(found.has_value());
  CHECK(Compare(found->nvshmem, found->on_default) == Faster::kNvshmem);
  CHECK(ReadTuningFile(Table("\"version\": 2", "\"version\": 1")).ok());
}

TEST_CASE("a row may have times of other ways; words of a later version are not read") {
  const std::string times = R"({"median_us": 2, "low_us": 2, "high_us": 2, "programs": 1})";
  const std::string ways = R"("domains": 1, "ways": {"later": 0, "one-sided": )" + times + "}";
  const Result<TuningFile> file = ReadTuningFile(Table("\"domains\": 2", ways));
  REQUIRE(file.ok());
  const auto found = file->table.Find(CollectiveOp::kAllReduce, ElementType::kBf16, 8, 4096);
  REQUIRE(found->ways.size() == 1);
  CHECK(found->ways[0].first == Way::kOneSided);
  CHECK(found->ways[0].second.us == 2);
  CHECK(Error(Table("\"domains\": 2", R"("domains": 1, "ways": {"nccl": {"median_us": -1}})")) ==
        "is damaged (row 1); run `xla-shmem tune` again.");
}

TEST_CASE("what is no whole table is an error with the way out") {
  CHECK(Error("") == Error("[]"));
  CHECK(Error("") == "is not a tuning table (no \"format\": \"xla-shmem tuning table\"); run `xla-shmem tune` again.");
  CHECK(Error(Table("\"version\": 2", "\"version\": 4")) == "has version 4 and not 3; run `xla-shmem tune` again.");
  CHECK(Error(Table("true", "false")) ==
        "is incomplete, because `xla-shmem tune` was stopped; run `xla-shmem tune` again.");
  CHECK(Error(Table(kRow, "")) == "is damaged (no rows); run `xla-shmem tune` again.");
  const std::string damaged = "is damaged (row 1); run `xla-shmem tune` again.";
  CHECK(Error(Table("all-reduce", "all-reduced")) == damaged);
  CHECK(Error(Table("bf16", "bf17")) == damaged);
  CHECK(Error(Table("\"group\": 8", "\"group\": 0")) == damaged);
  CHECK(Error(Table("\"bytes\": 4096", "\"bytes\": \"4096\"")) == damaged);
  CHECK(Error(Table("\"low_us\": 2", "\"low_us\": 5")) == damaged);
  CHECK(Error(Table("3.5", "nan")) == damaged);
  CHECK(Error(Table(kRow, std::string(kRow) + ", 7")) == "is damaged (row 2); run `xla-shmem tune` again.");
  CHECK(Error(Table(kRow, std::string(kRow) + "," + kRow)).find("is damaged (") == 0);
  for (size_t size = 0; size < Table().size(); ++size) CHECK_FALSE(ReadTuningFile(Table().substr(0, size)).ok());
}

}  // namespace
}  // namespace xla_shmem
