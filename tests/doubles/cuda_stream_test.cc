#include "tests/doubles/cuda_stream.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/doubles/nvshmem_host_api.h"

namespace xla_shmem::nvshmem_double {
namespace {

Command Set(uint64_t* word, uint64_t value) {
  Command command{Command::Kind::kSignal};
  command.compare_or_op = kSignalSet;
  command.word = word;
  command.value = value;
  return command;
}

Command Wait(uint64_t* word, int compare, uint64_t value) {
  Command command{Command::Kind::kWait};
  command.compare_or_op = static_cast<uint8_t>(compare);
  command.word = word;
  command.value = value;
  return command;
}

TEST_CASE("A command that nothing holds up runs where it is enqueued") {
  Stream stream;
  uint64_t word = 0;
  stream.Append(Set(&word, 5));
  CHECK(word == 5);
  CHECK(stream.Idle());
  CHECK(stream.BlockedOn() == nullptr);
}

TEST_CASE("Nothing behind an unsatisfied wait runs, and everything does once it is satisfied") {
  Stream stream;
  uint64_t gate = 0, first = 0, second = 0;
  stream.Append(Wait(&gate, kCmpEq, 1));
  stream.Append(Set(&first, 1));
  stream.Append(Set(&second, 2));
  CHECK_FALSE(stream.Advance());
  CHECK(first == 0);
  REQUIRE(stream.BlockedOn() != nullptr);
  CHECK(stream.BlockedOn()->word == &gate);
  gate = 1;
  CHECK(stream.Advance());
  CHECK(first == 1);
  CHECK(second == 2);
  CHECK(stream.Idle());
}

TEST_CASE("Commands run in the order they were enqueued") {
  const StreamApi& api = Api().stream;
  Stream stream;
  static std::vector<int> order;
  order.clear();
  static int names[] = {0, 1, 2, 3};
  uint64_t gate = 0;
  auto note = [](void* which) { order.push_back(*static_cast<int*>(which)); };
  api.launch_host_func(&stream, note, &names[0]);
  stream.Append(Wait(&gate, kCmpNe, 0));
  for (int i = 1; i < 4; ++i) api.launch_host_func(&stream, note, &names[i]);
  CHECK(order == std::vector<int>{0});
  gate = 9;
  CHECK(api.query(&stream));
  CHECK(order == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("Every comparison waits for exactly what it says, over the whole unsigned range") {
  const uint64_t values[] = {0, 1, 41, 42, 43, uint64_t{1} << 63, ~uint64_t{0}};
  auto holds = [](int compare, uint64_t seen, uint64_t value) {
    switch (compare) {
      case kCmpEq:
        return seen == value;
      case kCmpNe:
        return seen != value;
      case kCmpGt:
        return seen > value;
      case kCmpLe:
        return seen <= value;
      case kCmpLt:
        return seen < value;
      default:
        return seen >= value;
    }
  };
  for (int compare : {kCmpEq, kCmpNe, kCmpGt, kCmpLe, kCmpLt, kCmpGe}) {
    for (uint64_t seen : values) {
      for (uint64_t value : values) {
        Stream stream;
        uint64_t word = seen;
        stream.Append(Wait(&word, compare, value));
        CAPTURE(compare);
        CAPTURE(seen);
        CAPTURE(value);
        CHECK(stream.Idle() == holds(compare, seen, value));
      }
    }
  }
}

TEST_CASE("Adding signals count up, setting ones replace") {
  Stream stream;
  uint64_t word = 40;
  Command add = Set(&word, 2);
  add.compare_or_op = kSignalAdd;
  stream.Append(add);
  stream.Append(add);
  CHECK(word == 44);
  stream.Append(Set(&word, 1));
  CHECK(word == 1);
}

TEST_CASE("Copies and fills do what memcpy and memset do, and nothing for zero bytes") {
  const StreamApi& api = Api().stream;
  Stream stream;
  char from[8] = "abcdefg", to[8] = "-------";
  api.memcpy_async(to, from, 3, &stream);
  CHECK(std::string(to) == "abc----");
  api.memset_async(to + 5, '!', 2, &stream);
  CHECK(std::string(to) == "abc--!!");
  api.memcpy_async(nullptr, nullptr, 0, &stream);
  api.memcpy_async(to, nullptr, 0, &stream);
  api.memset_async(nullptr, 1, 0, &stream);
  CHECK(stream.Idle());
}

TEST_CASE("An abandoned stream forgets what has not run and can be used again") {
  Stream stream;
  uint64_t gate = 0, word = 0;
  stream.Append(Wait(&gate, kCmpEq, 1));
  stream.Append(Set(&word, 1));
  stream.Abandon();
  gate = 1;
  CHECK(stream.Advance());
  CHECK(word == 0);
  stream.Append(Set(&word, 2));
  CHECK(word == 2);
}

TEST_CASE("Captured commands do not run at capture and run in order at every launch") {
  Stream stream;
  uint64_t gate = 0, count = 0;
  Command add = Set(&count, 1);
  add.compare_or_op = kSignalAdd;
  stream.BeginCapture();
  stream.Append(Wait(&gate, kCmpEq, 1));
  stream.Append(Set(&gate, 0));
  stream.Append(add);
  const std::vector<Command> graph = stream.EndCapture();
  CHECK(graph.size() == 3);
  CHECK(stream.Idle());
  CHECK(count == 0);
  for (uint64_t replay = 1; replay <= 1000; ++replay) {
    stream.Launch(graph);
    const bool held = !stream.Advance();
    gate = 1;
    const bool done = stream.Advance();
    if (!held || !done || count != replay || gate != 0) FAIL("replay " << replay);
  }
}

TEST_CASE("A graph launched behind an unfinished one waits for it") {
  Stream stream;
  uint64_t gate = 0, count = 0;
  Command add = Set(&count, 1);
  add.compare_or_op = kSignalAdd;
  stream.BeginCapture();
  stream.Append(Wait(&gate, kCmpNe, 0));
  stream.Append(add);
  const std::vector<Command> graph = stream.EndCapture();
  stream.Launch(graph);
  stream.Launch(graph);
  CHECK(count == 0);
  gate = 1;
  CHECK(stream.Advance());
  CHECK(count == 2);
}

}  // namespace
}  // namespace xla_shmem::nvshmem_double
