// Ragged all-to-alls: rows of every width, in order where they overlap, and the errors of wrong numbers.
#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/ragged_transfer.h"

namespace xla_shmem::testing {
namespace {

using Groups = std::vector<std::vector<int>>;

constexpr Placement kPlacements[] = {Placement::kApart, Placement::kInPlace, Placement::kShifted, Placement::kRotated};

// Of which a slice takes several slots. Under ThreadSanitizer, which takes long for fresh memory, one to two.
constexpr int64_t kManyRows = kUnderThreadSanitizer ? 400 : 900;

uint64_t NextOperation() {
  static uint64_t operation = 0;
  return ++operation;
}

// Jobs with cross-memory reads, jobs with messages through slots and streaming stores for local copies, and jobs within
// a process.
void InAllJobs(int n_pes, const std::function<void(Job&)>& body) {
  for (const int kind : {0, 1, 2}) {
    JobOptions options;
    options.n_pes = n_pes;
    options.single_copy = kind == 0 ? shm::SingleCopy::kAlways : shm::SingleCopy::kOff;
    if (kind == 1) options.llc_share = 1;
    options.in_process = kind == 2;
    Job job(options);
    const size_t before = job.FreeBlocks(0, options.arena_bytes);
    body(job);
    CHECK(job.FreeBlocks(0, options.arena_bytes) == before);
  }
}

// Runs one operation in each group at once.
void Check(Job& job, const Groups& groups, const RaggedRows& rows, Placement placement) {
  const MessageKey key{NextOperation(), 1};
  job.RunPes([&](int pe) {
    for (const std::vector<int>& group : groups) {
      if (std::find(group.begin(), group.end(), pe) == group.end()) continue;
      RaggedTransfer transfer(key, pe, group, rows, placement);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      CHECK(transfer.Verdict() == "");
    }
  });
}

TEST_CASE("Rows of every width come to where their senders say, in groups of any order, in place or not") {
  InAllJobs(4, [](Job& job) {
    for (const Groups& groups : {Groups{{0, 1, 2, 3}}, Groups{{3, 0, 1}, {2}}}) {
      for (const RaggedRows& rows : {RaggedRows{1, 1}, RaggedRows{3, 40}, RaggedRows{16, 700, 3},
                                     RaggedRows{400, kManyRows, 2}, RaggedRows{0, 10}, RaggedRows{4, 2, 300}}) {
        for (Placement placement : kPlacements) Check(job, groups, rows, placement);
      }
    }
  });
}

TEST_CASE("Where slices overlap, the later member's holds, and of one member the later slice") {
  InAllJobs(4, [](Job& job) {
    for (const RaggedRows& rows :
         {RaggedRows{1, 3, 1, true}, RaggedRows{64, 50, 4, true}, RaggedRows{100, 4 * kManyRows, 2, true}}) {
      for (Placement placement : kPlacements) Check(job, {{2, 0, 3, 1}}, rows, placement);
    }
  });
}

TEST_CASE("It runs again a thousand times, with PEs that run ahead of each other and slots for one message only") {
  JobOptions options;
  options.n_pes = 3;
  options.single_copy = shm::SingleCopy::kOff;
  options.arena_bytes = 256 << 10;
  options.reserve_bytes = 64 << 10;
  Job job(options);
  const uint64_t operation = NextOperation();
  RunPes(3, [&](int pe) {
    for (uint64_t execution = 1; execution <= 1000; ++execution) {
      const RaggedRows rows{8, execution % 40 == 0 ? 4000 : 12, 2, execution % 3 == 0};
      RaggedTransfer transfer({operation, execution}, pe, {0, 1, 2}, rows, Placement::kInPlace);
      const std::string error = job.Finish(transfer.Begin(job.context(pe)));
      if (error != "") FAIL(error);
      if (transfer.Verdict() != "") FAIL("execution " << execution << ": " << transfer.Verdict());
    }
  });
}

// Two PEs, of which PE 0 got wrong numbers. Returns the errors of both.
std::vector<std::string> Errors(bool in_process, const std::function<void(RaggedAllToAllArguments&)>& spoil) {
  JobOptions options;
  options.in_process = in_process;
  options.deadline = std::chrono::seconds(20);
  Job job(options);
  const MessageKey key{NextOperation(), 1};
  std::vector<std::string> errors(2);
  RunPes(2, [&](int pe) {
    RaggedTransfer transfer(key, pe, {0, 1}, {8, 100, 2}, Placement::kApart);
    const bool is_first = pe == 0;
    RaggedNumbers& numbers = transfer.arguments().numbers;
    numbers.input_offsets = {0, 10, 20, 30};
    numbers.send_sizes = {4, 5, 6, 7};
    numbers.output_offsets = is_first ? std::vector<int64_t>{0, 10, 0, 10} : std::vector<int64_t>{20, 30, 20, 30};
    numbers.receive_sizes = is_first ? std::vector<int64_t>{4, 5, 4, 5} : std::vector<int64_t>{6, 7, 6, 7};
    if (pe == 0) spoil(transfer.arguments());
    errors[pe] = job.Finish(transfer.Begin(job.context(pe)));
    CHECK(transfer.GuardsIntact());
  });
  return errors;
}

TEST_CASE("Right numbers end in no error") {
  for (const bool in_process : {false, true}) {
    const std::vector<std::string> errors = Errors(in_process, [](RaggedAllToAllArguments&) {});
    CHECK(errors[0] == "");
    CHECK(errors[1] == "");
  }
}

TEST_CASE("Every wrong number ends in an error that names op, PE, array, index and value") {
  struct Wrong {
    std::function<void(RaggedAllToAllArguments&)> spoil;
    std::string error;
    int pe = -1;  // that the error begins with
  };
  const Wrong kinds[] = {
      {[](auto& a) { a.numbers.send_sizes[2] = -1; }, "send_sizes[2] is -1", 0},
      {[](auto& a) { a.numbers.receive_sizes[1] = -5; }, "recv_sizes[1] is -5", 0},
      {[](auto& a) { a.numbers.input_offsets[3] = 402; },
       "input_offsets[3] is 402 and send_sizes[3] is 7, but the operand has 408 rows"},
      {[](auto& a) { a.numbers.input_offsets[0] = -1; }, "input_offsets[0] is -1 and send_sizes[0] is 4"},
      {[](auto& a) { a.numbers.input_offsets[0] = INT64_MAX; }, "input_offsets[0] is 9223372036854775807 and"},
      {[](auto& a) { a.numbers.send_sizes[0] = INT64_MAX; }, "send_sizes[0] is 9223372036854775807, but the operand"},
      {[](auto& a) { a.numbers.output_offsets[2] = 403; },
       "output_offsets[2] is 403 and send_sizes[2] is 6, but the output on PE 1 has 408 rows"},
      {[](auto& a) { a.numbers.output_offsets[1] = -2; },
       "output_offsets[1] is -2 and send_sizes[1] is 5, but the output on PE 0 has 408 rows"},
      {[](auto& a) { a.numbers.receive_sizes[3] = 6; }, "recv_sizes[3] is 6, but send_sizes[1] is 5 on PE 1", 0},
      {[](auto& a) { a.numbers.receive_sizes[0] = 0; }, "recv_sizes[0] is 0, but send_sizes[0] is 4 on PE 0", 0},
      {[](auto& a) { a.numbers.send_sizes[3] = 8; }, "recv_sizes[1] is 7, but send_sizes[3] is 8 on PE 0", 1},
      // The program of PE 0 has another shape.
      {[](auto& a) { a.output_rows = 33; },
       "on PE 1 output_offsets[1] is 30 and send_sizes[1] is 5, but the output here has 33 rows"},
  };
  for (const bool in_process : {false, true}) {
    for (const Wrong& wrong : kinds) {
      // Within a process all run one program, so one shape.
      if (in_process && wrong.error.find("output here") != std::string::npos) continue;
      CAPTURE(wrong.error);
      const std::vector<std::string> errors = Errors(in_process, wrong.spoil);
      const std::string both = errors[0] + " | " + errors[1];
      INFO(both);
      const std::string pe = "PE " + std::to_string(wrong.pe);
      const std::string begin = wrong.pe < 0 ? ""
                                : in_process ? "; " + pe + ": "
                                             : "on " + pe + ", run 1, execution 2 in it; ";
      CHECK(both.find(begin + wrong.error) != std::string::npos);
      CHECK(both.find("ragged-all-to-all ragged-all-to-all.") == (errors[0].empty() ? 3 : 0));
    }
  }
}

TEST_CASE("Its error names a member that has not arrived, and no other") {
  for (const bool in_process : {false, true}) {
    JobOptions options;
    options.n_pes = 3;
    options.deadline = std::chrono::milliseconds(1500);
    options.in_process = in_process;
    Job job(options);
    const MessageKey key{NextOperation(), 1};
    std::vector<std::string> errors(2);
    RunPes(2, [&](int pe) {
      RaggedTransfer transfer(key, pe, {2, 0, 1}, {8, 9}, Placement::kApart);
      errors[pe] = job.Finish(transfer.Begin(job.context(pe)));
    });
    INFO(errors[0]);
    CHECK(errors[0].find("; not arrived at this operation: PE 2; gave up after") != std::string::npos);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
