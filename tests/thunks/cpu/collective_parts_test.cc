// The parts of divided collectives: what each PE has afterwards, with parts that buffers cut, padding, and sizes where
// the protocol of the messages changes.
#include "xla_patch/thunks/cpu/collective_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/part_layout.h"

namespace xla_shmem::testing {
namespace {

using Numbers = std::vector<int32_t>;

constexpr int kPes = 3;
const std::vector<int> kGroup = {2, 0, 1};
// Numbers of a part: less than a line, an eager message, several slots.
constexpr size_t kSizes[] = {1, 5, 3000, 100000};

size_t IndexOf(int pe) { return static_cast<size_t>(std::find(kGroup.begin(), kGroup.end(), pe) - kGroup.begin()); }

// Number `i` of what PE `pe` has.
int32_t Value(int pe, size_t i) { return static_cast<int32_t>((pe + 1) * 1000003 + i * 7); }

// Arrays that lie apart, of these numbers of elements.
struct Memory {
  explicit Memory(const std::vector<size_t>& sizes, int pe = -1) {
    size_t next = 0;
    for (const size_t size : sizes) {
      arrays.emplace_back(size, -1);
      for (size_t i = 0; i < size && pe >= 0; ++i) arrays.back()[i] = Value(pe, next++);
    }
  }
  template <typename Pointer>
  Arrays<Pointer> View() {
    Arrays<Pointer> view;
    for (Numbers& array : arrays) {
      view.memory.push_back(reinterpret_cast<char*>(array.data()));
      view.bytes.push_back(array.size() * sizeof(int32_t));
    }
    return view;
  }
  Numbers Joined() const {
    Numbers joined;
    for (const Numbers& array : arrays) joined.insert(joined.end(), array.begin(), array.end());
    return joined;
  }
  std::vector<Numbers> arrays;
};

template <typename Arguments>
Arguments Begin(uint64_t operation, std::vector<std::vector<int64_t>> positions, size_t part, Memory* operands,
                Memory* results) {
  Arguments arguments;
  arguments.key = {operation, 1};
  arguments.name = "part";
  arguments.group = kGroup;
  arguments.positions = std::move(positions);
  arguments.part_bytes = part * sizeof(int32_t);
  arguments.operands = operands->View<const char*>();
  arguments.results = results->View<char*>();
  return arguments;
}

// The parts `positions`, of `part` numbers each, of a whole that number `i` of is `value(i)`; what the whole lacks is
// 0.
template <typename GetValue>
Numbers PartsOf(const std::vector<int64_t>& positions, size_t part, size_t whole, GetValue value) {
  Numbers parts;
  for (const int64_t position : positions) {
    for (size_t i = position * part; i < (position + 1) * part; ++i) parts.push_back(i < whole ? value(i) : 0);
  }
  return parts;
}

int32_t Sum(size_t i) { return Value(0, i) + Value(1, i) + Value(2, i); }

TEST_CASE("parts are cut where buffers of either side end") {
  const PartRanges ranges = CutParts({10, 6}, {4, 8}, {{0, 1}, {2, 0}, {3, 2}}, 4);
  const auto text = [](const std::vector<ByteRange>& parts) {
    std::string joined;
    for (const ByteRange& part : parts) {
      joined += std::to_string(part.buffer) + ":" + std::to_string(part.begin) + "-" + std::to_string(part.end) + " ";
    }
    return joined;
  };
  CHECK(text(ranges.whole) == "0:0-4 0:8-10 1:0-2 1:2-6 ");
  CHECK(text(ranges.vector) == "1:0-4 0:0-2 0:2-4 1:4-8 ");
  // The whole ends in the middle of a part, and before another one.
  CHECK(text(CutParts({6}, {8}, {{1, 0}, {2, 1}}, 4).vector) == "0:0-2 ");
}

TEST_CASE("a reduce-scatter reduces the chunks of several arrays, with zeros behind the last one") {
  Job job({kPes});
  for (const size_t size : kSizes) {
    const std::vector<size_t> arrays = {2 * size, 1, size};
    const size_t whole = 3 * size + 1, chunk = size + 1;
    RunPes(kPes, [&](int pe) {
      Memory operands(arrays, pe), results({chunk});
      auto arguments = Begin<ReduceScatterPartsArguments>(size, {{0}, {1}, {2}}, chunk, &operands, &results);
      arguments.type = ElementType::kS32;
      CHECK(job.Finish(MakeOperation(&job.context(pe), std::move(arguments))) == "");
      CHECK(results.Joined() == PartsOf({static_cast<int64_t>(IndexOf(pe))}, chunk, whole, Sum));
    });
  }
}

TEST_CASE("a reduce-scatter gives each PE the parts of its positions, an array each") {
  Job job({kPes});
  const std::vector<std::vector<int64_t>> positions = {{5, 0}, {1, 4}, {2, 3}};
  for (const size_t size : kSizes) {
    RunPes(kPes, [&](int pe) {
      Memory operands({6 * size}, pe), results({size, size});
      auto arguments = Begin<ReduceScatterPartsArguments>(size, positions, size, &operands, &results);
      arguments.type = ElementType::kS32;
      CHECK(job.Finish(MakeOperation(&job.context(pe), std::move(arguments))) == "");
      CHECK(results.Joined() == PartsOf(positions[IndexOf(pe)], size, 6 * size, Sum));
    });
  }
}

TEST_CASE("an all-gather puts the parts of all PEs in their places, without the padding") {
  Job job({kPes});
  const std::vector<std::vector<int64_t>> positions = {{5, 0}, {1, 4}, {2, 3}};
  for (const size_t size : kSizes) {
    const std::vector<size_t> arrays = {size, 4 * size, size > 1 ? size - 1 : 1};
    const size_t whole = arrays[0] + arrays[1] + arrays[2];
    RunPes(kPes, [&](int pe) {
      Memory operands({2 * size}, pe), results(arrays);
      CHECK(job.Finish(MakeOperation(
                &job.context(pe), Begin<AllGatherPartsArguments>(size, positions, size, &operands, &results))) == "");
      Numbers expected(6 * size, -1);
      for (size_t member = 0; member < kGroup.size(); ++member) {
        for (size_t i = 0; i < 2 * size; ++i) {
          expected[positions[member][i / size] * size + i % size] = Value(kGroup[member], i);
        }
      }
      expected.resize(whole);
      CHECK(results.Joined() == expected);
    });
  }
}

TEST_CASE("an all-gather of one PE puts its own parts in order") {
  Job job({1});
  Memory operands({4, 4}, 0), results({2, 2, 2, 2});
  auto arguments = Begin<AllGatherPartsArguments>(1, {{3, 1, 0, 2}}, 2, &operands, &results);
  arguments.group = {0};
  CHECK(job.Finish(MakeOperation(&job.context(0), std::move(arguments))) == "");
  CHECK(results.Joined() == Numbers{Value(0, 4), Value(0, 5), Value(0, 2), Value(0, 3), Value(0, 6), Value(0, 7),
                                    Value(0, 0), Value(0, 1)});
}

TEST_CASE("an all-to-all gives each PE its parts of every PE, position by position") {
  Job job({kPes});
  const std::vector<std::vector<int64_t>> positions = {{5, 0}, {1, 4}, {2, 3}};
  for (const size_t size : kSizes) {
    RunPes(kPes, [&](int pe) {
      Memory operands(std::vector<size_t>(6, size), pe), results({3 * size, 3 * size});
      CHECK(job.Finish(MakeOperation(&job.context(pe),
                                     Begin<AllToAllPartsArguments>(size, positions, size, &operands, &results))) == "");
      Numbers expected;
      for (const int64_t position : positions[IndexOf(pe)]) {
        for (const int from : kGroup) {
          for (size_t i = 0; i < size; ++i) expected.push_back(Value(from, position * size + i));
        }
      }
      CHECK(results.Joined() == expected);
    });
  }
}

TEST_CASE("an operand that shares memory with the result is read before it is overwritten") {
  Job job({kPes});
  const std::vector<std::vector<int64_t>> positions = {{0}, {1}, {2}};
  RunPes(kPes, [&](int pe) {
    Memory memory({3}, pe);
    auto arguments = Begin<AllGatherPartsArguments>(1, positions, 1, &memory, &memory);
    arguments.operands.bytes = {sizeof(int32_t)};
    CHECK(job.Finish(MakeOperation(&job.context(pe), std::move(arguments))) == "");
    CHECK(memory.Joined() == Numbers{Value(2, 0), Value(0, 0), Value(1, 0)});
  });
}

TEST_CASE("what came from several domains is reduced in their order") {
  Job job({1});
  for (const size_t size : kSizes) {
    Memory operands({size, size, size}, 0), results({size});
    auto arguments = Begin<ReducePartsArguments>(size, {{}}, size, &operands, &results);
    arguments.group = {0};
    arguments.type = ElementType::kS32;
    CHECK(job.Finish(MakeOperation(&job.context(0), std::move(arguments))) == "");
    for (size_t i = 0; i < size; ++i) {
      REQUIRE(results.arrays[0][i] == Value(0, i) + Value(0, size + i) + Value(0, 2 * size + i));
    }
  }
}

TEST_CASE("parts of one array are reduced too") {
  Job job({1});
  Memory operands({10}, 0), results({5});
  auto arguments = Begin<ReducePartsArguments>(1, {{}}, 5, &operands, &results);
  arguments.group = {0};
  arguments.type = ElementType::kS32;
  CHECK(job.Finish(MakeOperation(&job.context(0), std::move(arguments))) == "");
  for (size_t i = 0; i < 5; ++i) CHECK(results.arrays[0][i] == Value(0, i) + Value(0, 5 + i));
}

TEST_CASE("a permute takes what came from another domain, or zeros where nothing did") {
  Job job({kPes});
  for (const size_t size : kSizes) {
    RunPes(kPes, [&](int pe) {  // 0 -> 1 here; 2 has received; 0 gets nothing
      Memory operand({size}, pe), received({size}, 7), result({size});
      PermutePartsArguments arguments;
      arguments.key = {size, 1};
      arguments.name = "part";
      arguments.source = pe == 1 ? 0 : -1;
      arguments.target = pe == 0 ? 1 : -1;
      arguments.operand = reinterpret_cast<const char*>(operand.arrays[0].data());
      if (pe == 2) arguments.received = reinterpret_cast<const char*>(received.arrays[0].data());
      arguments.result = reinterpret_cast<char*>(result.arrays[0].data());
      arguments.bytes = size * sizeof(int32_t);
      CHECK(job.Finish(MakeOperation(&job.context(pe), std::move(arguments))) == "");
      CHECK(result.arrays[0] == (pe == 1   ? Memory({size}, 0).arrays[0]
                                 : pe == 2 ? received.arrays[0]
                                           : Numbers(size, 0)));
    });
  }
}

}  // namespace
}  // namespace xla_shmem::testing
