#include "xla_patch/hlo/proto/source_lines.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

TEST_CASE("file and line are found by the number of the stack frame where the metadata lacks them") {
  const auto location = [](int64_t file, int64_t line) { return Message().Int(1, file).Int(3, line); };
  const auto module = [&](const Message& metadata) {
    return Module({ReductionComputation("add", 1),
                   Computation("main", 2,
                               {Instruction("p", "parameter", ArrayShape({8}), 1),
                                WithPairs(Instruction("cp", "collective-permute", ArrayShape({8}), 2, {1}), kRing)
                                    .Sub(7, metadata)},
                               2)},
                  2)
        .Sub(17, Message()
                     .Bytes(1, "/a.py")
                     .Bytes(1, "/b.py")
                     .Bytes(2, "f")
                     .Sub(3, location(1, 10))
                     .Sub(3, location(2, 20))
                     .Sub(4, Message().Int(1, 1))
                     .Sub(4, Message().Int(1, 2).Int(2, 1)))
        .str();
  };
  const auto source = [&](const Message& metadata) {
    const std::vector<CollectiveRecord> records = Inspect(module(metadata));
    return records[0].source_file + ":" + std::to_string(records[0].source_line);
  };
  CHECK(source(Message().Int(15, 2)) == "/b.py:20");
  CHECK(source(Message().Int(15, 1)) == "/a.py:10");
  CHECK(source(Message().Bytes(3, "/own.py").Int(4, 5).Int(15, 2)) == "/own.py:5");
  for (const int64_t none : {0, 3, -1}) {
    CHECK(source(Message().Int(15, none)) == ":0");
  }
}

}  // namespace
}  // namespace xla_shmem
