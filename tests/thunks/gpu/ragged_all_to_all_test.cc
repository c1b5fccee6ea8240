#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"

namespace xla_shmem::testing {
namespace {

constexpr int kRounds = 3;
constexpr uint64_t kAnywhere = 1'000'000'000'000;  // the offset of a slice without rows

struct RaggedCase {
  std::vector<std::vector<int>> groups;
  size_t row_bytes;
  size_t most_rows;  // of a slice
  size_t slices = 1;
  Form form = Form::kOverlapping;
  bool in_place = true;  // the result is the output operand
  int empty_percent = 30;
  size_t lane_bytes = 256 << 10;
};

// The four arrays of one PE.
struct Numbers {
  std::vector<uint64_t> input_offsets, send_sizes, output_offsets, receive_sizes;
  std::vector<std::vector<uint64_t>*> All() { return {&input_offsets, &send_sizes, &output_offsets, &receive_sizes}; }
};

// One round of a group: what each member has and expects.
struct Round {
  std::vector<Numbers> numbers;
  std::vector<std::vector<char>> inputs, outputs, expected;
};

std::vector<char> RandomBytes(size_t count, std::mt19937& random) {
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Rows that every member needs on each side, with gaps.
size_t BufferRows(const RaggedCase& test, size_t members) { return members * test.slices * (test.most_rows + 2); }

Round MakeRound(const RaggedCase& test, size_t members, std::mt19937& random) {
  const size_t rows = BufferRows(test, members), count = members * test.slices;
  Round round;
  round.numbers.resize(members);
  for (Numbers& numbers : round.numbers) {
    for (std::vector<uint64_t>* array : numbers.All()) array->assign(count, kAnywhere);
    round.inputs.push_back(RandomBytes(rows * test.row_bytes, random));
    round.outputs.push_back(RandomBytes(rows * test.row_bytes, random));
  }
  round.expected = round.outputs;
  std::vector<size_t> input_end(members, 0), output_end(members, 0);
  for (size_t from = 0; from < members; ++from) {
    for (size_t to = 0; to < members; ++to) {
      for (size_t slice = 0; slice < test.slices; ++slice) {
        const size_t sent = to * test.slices + slice, received = from * test.slices + slice;
        const bool is_empty = static_cast<int>(random() % 100) < test.empty_percent;
        const size_t size = is_empty ? 0 : 1 + random() % test.most_rows;
        round.numbers[from].send_sizes[sent] = round.numbers[to].receive_sizes[received] = size;
        if (size == 0) continue;
        const size_t source = input_end[from] + random() % 3, target = output_end[to] + random() % 3;
        round.numbers[from].input_offsets[sent] = source;
        round.numbers[from].output_offsets[sent] = target;
        std::copy_n(round.inputs[from].begin() + source * test.row_bytes, size * test.row_bytes,
                    round.expected[to].begin() + target * test.row_bytes);
        input_end[from] = source + size;
        output_end[to] = target + size;
      }
    }
  }
  return round;
}

gpu::GroupArguments Arguments(const RaggedCase& test, const std::vector<int>& group, const Numbers& numbers,
                              const std::vector<char>& input, const std::vector<char>& output, char* result) {
  gpu::GroupArguments arguments;
  arguments.name = "module/op";
  arguments.tag = kTag;
  arguments.op = CollectiveOp::kRaggedAllToAll;
  arguments.group = group;
  arguments.buffers = {{output.data()}, {result}, {output.size()}};
  arguments.ragged = {input.data(),
                      test.row_bytes,
                      input.size() / test.row_bytes,
                      output.size() / test.row_bytes,
                      static_cast<int>(test.slices),
                      numbers.input_offsets.data(),
                      numbers.send_sizes.data(),
                      numbers.output_offsets.data(),
                      numbers.receive_sizes.data()};
  return arguments;
}

// What one PE does: the stream writes its operands before every round.
struct Member {
  Numbers numbers;
  std::vector<char> input, output, result;
  std::vector<std::vector<char>> seen;

  Member(const std::vector<Round>& rounds, size_t me)
      : numbers(rounds[0].numbers[me]),
        input(rounds[0].inputs[me].size()),
        output(rounds[0].outputs[me].size()),
        result(output.size()),
        seen(rounds.size(), result) {}

  void Run(const RaggedCase& test, const std::vector<int>& group, std::vector<Round>& rounds, size_t me,
           GpuJob::Pe& pe) {
    const gpu::ScopedContext context(*pe.device);
    char* const written = test.in_place ? output.data() : result.data();
    const gpu::GroupArguments arguments = Arguments(test, group, numbers, input, output, written);
    const bool graph = test.form == Form::kGraph;
    if (graph) pe.cuda->BeginCapture(pe.compute);
    for (size_t round = 0; round < rounds.size(); ++round) {
      for (size_t i = 0; i < 4; ++i) {
        const std::vector<uint64_t>& from = *rounds[round].numbers[me].All()[i];
        pe.device->Copy(numbers.All()[i]->data(), from.data(), from.size() * sizeof(uint64_t), pe.compute);
      }
      pe.device->Copy(input.data(), rounds[round].inputs[me].data(), input.size(), pe.compute);
      pe.device->Copy(output.data(), rounds[round].outputs[me].data(), output.size(), pe.compute);
      if (test.form == Form::kOverlapping) {
        const gpu::TransferKey key{7, static_cast<int64_t>(round)};
        CHECK(pe.transfers->StartGroup(key, arguments, pe.compute).message() == "");
        CHECK(pe.transfers->Finish(key, arguments.name, pe.compute).message() == "");
      } else {
        CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
      }
      pe.device->Copy(seen[round].data(), written, output.size(), pe.compute);
    }
    if (!graph) return;
    pe.cuda->EndCapture(pe.compute);
    for (int launch = 0; launch < 10; ++launch) pe.cuda->LaunchGraph(pe.compute);
  }
};

void RunRaggedCase(const RaggedCase& test) {
  GpuJobOptions options;
  options.lane_bytes = test.lane_bytes;
  options.n_pes = 1;
  for (const std::vector<int>& group : test.groups) {
    for (const int pe : group) options.n_pes = std::max(options.n_pes, pe + 1);
  }
  GpuJob job(options);
  std::mt19937 random(17);
  std::vector<std::vector<Round>> rounds(test.groups.size());
  std::vector<std::vector<Member>> members(test.groups.size());
  std::vector<std::thread> hosts;
  for (size_t g = 0; g < test.groups.size(); ++g) {
    for (int round = 0; round < kRounds; ++round) rounds[g].push_back(MakeRound(test, test.groups[g].size(), random));
    for (size_t i = 0; i < test.groups[g].size(); ++i) members[g].emplace_back(rounds[g], i);
  }
  for (size_t g = 0; g < test.groups.size(); ++g) {
    for (size_t i = 0; i < test.groups[g].size(); ++i) {
      hosts.emplace_back([&, g, i] {
        nvshmem_double::BindPe(test.groups[g][i]);
        members[g][i].Run(test, test.groups[g], rounds[g], i, job.pe(test.groups[g][i]));
      });
    }
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (size_t g = 0; g < test.groups.size(); ++g) {
    for (size_t i = 0; i < test.groups[g].size(); ++i) {
      for (int round = 0; round < kRounds; ++round) CHECK(members[g][i].seen[round] == rounds[g][round].expected[i]);
    }
  }
}

TEST_CASE("Rows of any length come to where the sender says, and all others stay, in every form") {
  for (const Form form : {Form::kOverlapping, Form::kInLine, Form::kGraph}) {
    for (const size_t row_bytes : {1, 2, 3, 6, 16, 20, 64}) {
      CAPTURE(row_bytes);
      RaggedCase test{{{0, 2, 1}}, row_bytes, 40};
      test.form = form;
      test.in_place = row_bytes % 2 == 0;
      RunRaggedCase(test);
    }
  }
}

TEST_CASE("Members may send several slices to each other") {
  RaggedCase test{{{1, 0, 2}}, 12, 50};
  for (const size_t slices : {2, 3, 40}) {
    test.slices = slices;
    RunRaggedCase(test);
  }
}

TEST_CASE("More rows than the slots hold take turns, and pairs may differ in their number of messages") {
  RaggedCase test{{{0, 1, 2}}, 48, 3000};
  test.empty_percent = 50;
  RunRaggedCase(test);
  test = {{{0, 1}}, 16, 20000};
  test.form = Form::kGraph;
  RunRaggedCase(test);
  test = {{{0, 1, 2}}, 7, 2000, 3};
  test.lane_bytes = 12 << 10;
  RunRaggedCase(test);
}

TEST_CASE("A row may be longer than a slot") { RunRaggedCase({{{0, 1}}, 70'001, 3}); }

TEST_CASE("Nobody needs to send anything") {
  RaggedCase test{{{0, 1, 2}}, 4, 5};
  test.empty_percent = 100;
  RunRaggedCase(test);
}

TEST_CASE("Sub-groups work side by side, also groups of one member") {
  for (const Form form : {Form::kOverlapping, Form::kInLine, Form::kGraph}) {
    RaggedCase test{{{3, 0}, {1, 4}, {2}}, 10, 30, 2};
    test.form = form;
    RunRaggedCase(test);
  }
}

TEST_CASE("Buffers without rows are left alone") {
  GpuJob job({});
  std::vector<uint64_t> zeros(2, 0);
  const Numbers numbers{zeros, zeros, zeros, zeros};
  std::vector<std::vector<char>> outputs(2, std::vector<char>(40, 1));
  for (int number = 0; number < 2; ++number) {
    GpuJob::Pe& pe = job.pe(number);
    // No rows in the input; then none in the output; then rows without bytes.
    for (const auto& [row_bytes, output_bytes] : {std::pair<size_t, size_t>{4, 40}, {4, 0}, {0, 0}}) {
      gpu::GroupArguments arguments;
      arguments.name = "module/op";
      arguments.tag = kTag;
      arguments.op = CollectiveOp::kRaggedAllToAll;
      arguments.group = {0, 1};
      arguments.buffers = {{outputs[number].data()}, {outputs[number].data()}, {output_bytes}};
      arguments.ragged = {nullptr,      row_bytes,    0,           output_bytes / 4, 1, zeros.data(),
                          zeros.data(), zeros.data(), zeros.data()};
      CHECK(OnDevice(pe, [&] { return pe.transfers->RunGroup(arguments, pe.compute); }).message() == "");
    }
  }
  REQUIRE(job.Synchronize());
  for (const std::vector<char>& output : outputs) CHECK(output == std::vector<char>(40, 1));
}

// The error of PE 0 if the numbers of PEs 0 and 1, ten rows of four bytes each, are these; "" if there is none.
std::string ErrorOf(std::vector<Numbers> numbers) {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(1500);
  GpuJob job(options);
  const RaggedCase test{{}, 4, 10};
  std::vector<std::vector<char>> inputs(2, std::vector<char>(40, 1)), outputs(2, std::vector<char>(40, 2));
  for (int number = 0; number < 2; ++number) {
    GpuJob::Pe& pe = job.pe(number);
    const gpu::GroupArguments arguments =
        Arguments(test, {0, 1}, numbers[number], inputs[number], outputs[number], outputs[number].data());
    CHECK(OnDevice(pe, [&] { return pe.transfers->RunGroup(arguments, pe.compute); }).message() == "");
  }
  REQUIRE(job.Synchronize());
  const std::string error = job.pe(0).watchdog->Check().message();
  CHECK(job.pe(0).cuda->trapped() == !error.empty());
  return error;
}

TEST_CASE("Rows beyond a buffer, and sizes that do not agree, end the job with an error that names the op") {
  constexpr uint64_t kMinusOne = ~uint64_t{0};
  const Numbers one{{10, 6}, {0, 4}, {0, 6}, {0, 4}};
  const Numbers other{{6, kAnywhere}, {4, 0}, {6, 0}, {4, 0}};
  CHECK(ErrorOf({one, other}) == "");
  const auto with = [&](auto change) {
    Numbers changed = one;
    change(changed);
    return ErrorOf({changed, other});
  };
  const std::string op = "module/op on PE 0: ";
  const std::string input = op + "the rows for PE 1 are not all in the input (input_offsets, send_sizes)";
  CHECK(with([](Numbers& numbers) { numbers.input_offsets[1] = 7; }) == input);
  CHECK(with([](Numbers& numbers) { numbers.input_offsets[1] = kMinusOne; }) == input);
  CHECK(with([](Numbers& numbers) { numbers.send_sizes[1] = kMinusOne; }) == input);
  const std::string output =
      op + "the rows for PE 1, or from it, do not all fit in the output (output_offsets, send_sizes, recv_sizes)";
  CHECK(with([](Numbers& numbers) { numbers.output_offsets[1] = 7; }) == output);
  CHECK(with([](Numbers& numbers) { numbers.output_offsets[1] = kMinusOne; }) == output);
  CHECK(with([](Numbers& numbers) { numbers.receive_sizes[1] = 11; }) == output);
  CHECK(with([](Numbers& numbers) { numbers.receive_sizes[1] = 3; }) ==
        op + "PE 1 sends other numbers of rows than recv_sizes says");
  CHECK(with([](Numbers& numbers) { numbers.receive_sizes[0] = 1; }) ==
        op + "PE 0 sends other numbers of rows than recv_sizes says");
}

TEST_CASE("An input that overlaps the result is an error") {
  GpuJob job({});
  GpuJob::Pe& pe = job.pe(0);
  std::vector<uint64_t> zeros(2, 0);
  std::vector<char> memory(80);
  gpu::GroupArguments arguments;
  arguments.tag = kTag;
  arguments.op = CollectiveOp::kRaggedAllToAll;
  arguments.group = {0, 1};
  arguments.buffers = {{memory.data()}, {memory.data()}, {40}};
  arguments.ragged = {memory.data() + 36, 4, 10, 10, 1, zeros.data(), zeros.data(), zeros.data(), zeros.data()};
  const Status error = OnDevice(pe, [&] { return pe.transfers->RunGroup(arguments, pe.compute); });
  CHECK(error.message().find("the input overlaps the result") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
