#include "xla_patch/thunks/cpu/ragged_in_process.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/thunks/cpu/in_process_collective.h"

namespace xla_shmem {
namespace {

// The rows of a result that have their content. Each row is written once, so that chunks may run in any order: what
// would be overwritten is not written at all.
class WrittenRows {
 public:
  // Adds the rows from `begin` to `end`, and calls `visit(begin, end)` for each run of them that was not written.
  template <typename Visit>
  void Add(int64_t begin, int64_t end, Visit visit) {
    auto next = runs_.upper_bound(begin);
    if (next != runs_.begin() && std::prev(next)->second >= begin) --next;
    int64_t first = begin, last = end;
    for (; next != runs_.end() && next->first <= end; next = runs_.erase(next)) {
      if (begin < next->first) visit(begin, next->first);
      begin = std::max(begin, next->second);
      first = std::min(first, next->first);
      last = std::max(last, next->second);
    }
    if (begin < end) visit(begin, end);
    runs_[first] = last;
  }

 private:
  std::map<int64_t, int64_t> runs_;  // begin to end, with gaps between them
};

// What all members have in common.
struct Form {
  std::vector<int> group;
  size_t slices;
  size_t row_bytes;
  int64_t input_rows, output_rows;
};

// The plan of what member `to` receives.
void PlanResult(const Form& form, const std::vector<MemberBuffers>& members, size_t to, InProcessPlan* plan) {
  char* const result = members[to].results[0];
  const auto row = [&](auto* buffer, int64_t number) { return buffer + static_cast<size_t>(number) * form.row_bytes; };
  WrittenRows written;
  const auto copy = [&](const char* from, int64_t first, int64_t end) {
    written.Add(first, first + end, [&](int64_t begin, int64_t stop) {
      plan->Copy(row(from, begin - first), row(result, begin), static_cast<size_t>(stop - begin) * form.row_bytes);
    });
  };
  // The last first, because it holds where slices overlap.
  for (size_t from = members.size(); from-- > 0;) {
    const RaggedNumbers& numbers = *members[from].numbers;
    for (size_t i = (to + 1) * form.slices; i-- > to * form.slices;) {
      const int64_t rows = numbers.send_sizes[i];
      if (rows > 0) copy(row(members[from].operands[0], numbers.input_offsets[i]), numbers.output_offsets[i], rows);
    }
  }
  if (members[to].operands[1] != result) copy(members[to].operands[1], 0, form.output_rows);
}

void Check(const Form& form, const std::vector<MemberBuffers>& members) {
  const RaggedChecks checks(form.group, form.slices, form.input_rows, form.output_rows);
  std::vector<RaggedPlace> places(form.slices);
  for (size_t to = 0; to < members.size(); ++to) {
    try {
      checks.CheckOwn(*members[to].numbers);
      for (size_t from = 0; from < members.size(); ++from) {
        const RaggedNumbers& numbers = *members[from].numbers;
        for (size_t slice = 0; slice < form.slices; ++slice) {
          const size_t i = to * form.slices + slice;
          places[slice] = {numbers.output_offsets[i], numbers.send_sizes[i]};
        }
        checks.CheckComing(*members[to].numbers, to, from, places.data());
      }
    } catch (const std::runtime_error& error) {
      // The member that finds it may be another one.
      throw std::runtime_error("PE " + std::to_string(form.group[to]) + ": " + error.what());
    }
  }
}

}  // namespace

std::unique_ptr<Operation> MakeRaggedInProcess(const PeContext* context, RaggedAllToAllArguments arguments) {
  OperandCopies copies = CopyOverlapping(&arguments);
  const Form form{arguments.group, SlicesOf(arguments), arguments.row_bytes, arguments.input_rows,
                  arguments.output_rows};
  auto plan = [form](const std::vector<MemberBuffers>& members) {
    Check(form, members);
    InProcessPlan plan;
    for (size_t to = 0; to < members.size(); ++to) PlanResult(form, members, to, &plan);
    return plan;
  };
  MemberBuffers buffers{{arguments.input, arguments.output},
                        {arguments.result},
                        std::make_shared<const RaggedNumbers>(std::move(arguments.numbers))};
  return std::make_unique<InProcessCollective>(
      context, CollectiveOp::kRaggedAllToAll, arguments.key, std::move(arguments.name), std::move(arguments.group),
      std::move(buffers), std::move(copies), static_cast<size_t>(arguments.input_rows) * arguments.row_bytes,
      std::move(plan));
}

}  // namespace xla_shmem
