#include "xla_patch/hlo/proto/attributes.h"

#include <doctest/doctest.h>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using test::Message;

Message Entry(std::string_view key, std::string_view value) { return Message().Bytes(1, key).Bytes(2, value); }

TEST_CASE("entries of others keep their bytes and come first") {
  const std::string mine = Message().Sub(1, Entry("mine", "1")).Int(9, 5).str();
  const std::string merged = MergeAttributes({mine}, {{"xla_shmem.rule", "size"}});
  CHECK(merged == mine + Message().Sub(1, Entry("xla_shmem.rule", "size")).str());
  CHECK(ReadOwnAttributes({merged}) == Attributes{{"xla_shmem.rule", "size"}});
}

TEST_CASE("our earlier entries are replaced, in whichever occurrence they stand") {
  const std::string first = Message().Sub(1, Entry("xla_shmem.rule", "old")).Sub(1, Entry("mine", "1")).str();
  const std::string second = Message().Sub(1, Entry("xla_shmem.veto", "gone")).str();
  const std::string merged = MergeAttributes({first, second}, {{"xla_shmem.rule", "new"}});
  CHECK(ReadOwnAttributes({merged}) == Attributes{{"xla_shmem.rule", "new"}});
  CHECK(merged.find("mine") != std::string::npos);
}

TEST_CASE("malformed maps are noticed") {
  CHECK(AreWellFormed(Message().Sub(1, Entry("a", "b")).str()));
  CHECK(AreWellFormed(""));
  CHECK_FALSE(AreWellFormed("\x0a\x05"));
  CHECK_FALSE(AreWellFormed(Message().Bytes(1, "\x0a\x7f").str()));
  CHECK_FALSE(AreWellFormed(Message().Int(1, 3).str()));
}

}  // namespace
}  // namespace xla_shmem::hlo
