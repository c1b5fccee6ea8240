#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"

namespace xla_shmem {
namespace {

// Slices that go to each member.
size_t SlicesOf(const RaggedAllToAllArguments& arguments) {
  return arguments.numbers.send_sizes.size() / arguments.group.size();
}

// Copies the operands that the result would overwrite before they are read.
OperandCopies CopyOverlapping(RaggedAllToAllArguments* arguments) {
  const size_t result_bytes = static_cast<size_t>(arguments->output_rows) * arguments->row_bytes;
  const size_t input_bytes = static_cast<size_t>(arguments->input_rows) * arguments->row_bytes;
  std::vector<const char*> operands = {arguments->input, arguments->output};
  OperandCopies copies;
  CopyOverlappingOperands(
      {arguments->result}, [&](size_t) { return result_bytes; },
      [&](size_t operand) -> const char* { return operand == 0 ? nullptr : arguments->result; },
      [&](size_t operand) { return operand == 0 ? input_bytes : result_bytes; }, &operands, &copies);
  arguments->input = operands[0];
  arguments->output = operands[1];
  return copies;
}

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
      plan->AddMove(row(from, begin - first), row(result, begin), static_cast<size_t>(stop - begin) * form.row_bytes);
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

RaggedAllToAllOperation::RaggedAllToAllOperation(const PeContext* context, RaggedAllToAllArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kRaggedAllToAll, arguments.key, arguments.name,
                          arguments.group.size()),
      arguments_(std::move(arguments)),
      me_(IndexIn(arguments_.group)),
      slices_(SlicesOf(arguments_)),
      checks_(arguments_.group, slices_, arguments_.input_rows, arguments_.output_rows) {
  copies_ = CopyOverlapping(&arguments_);
  SetBytes(static_cast<size_t>(arguments_.input_rows) * arguments_.row_bytes);
}

bool RaggedAllToAllOperation::DeclareMore() {
  switch (stage_) {
    case Stage::kNumbers:
      checks_.CheckOwn(arguments_.numbers);
      SendEverything();
      stage_ = Stage::kHeads;
      return true;
    case Stage::kHeads:
      for (size_t member = 0; member < arguments_.group.size(); ++member) {
        checks_.CheckComing(arguments_.numbers, me_, member, &places_from_[member * slices_]);
      }
      in_order_ = PlacesOverlap();
      stage_ = Stage::kRows;
      break;
    case Stage::kRows:
      break;
  }
  GiveBackBlocks();
  if (next_member_ == arguments_.group.size()) return false;
  do {
    ReceiveRows(next_member_++);
  } while (!in_order_ && next_member_ < arguments_.group.size());
  return true;
}

void RaggedAllToAllOperation::SendEverything() {
  const auto& [key, name, group, input, output, result, row_bytes, input_rows, output_rows, numbers] = arguments_;
  CopyLocally(output, result, static_cast<size_t>(output_rows) * row_bytes);
  const size_t head_bytes = slices_ * sizeof(RaggedPlace);
  places_from_.resize(numbers.send_sizes.size());
  for (size_t i = 0; i < numbers.send_sizes.size(); ++i) {
    places_to_.push_back({numbers.output_offsets[i], numbers.send_sizes[i]});
  }
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me_ + step) % group.size(), from = (me_ + group.size() - step) % group.size();
    Spans head, place, rows(slices_);
    head.Add(&places_to_[to * slices_], head_bytes);
    place.Add(&places_from_[from * slices_], head_bytes);
    Send(group[to], key, std::move(head));
    Receive(group[from], key, std::move(place));
    for (size_t i = to * slices_; i < (to + 1) * slices_; ++i) {
      if (numbers.send_sizes[i] == 0) continue;  // its offsets may be any numbers
      rows.Add(InputRow(numbers.input_offsets[i]), static_cast<size_t>(numbers.send_sizes[i]) * row_bytes);
    }
    Send(group[to], SecondMessage(key), std::move(rows));
  }
  std::copy_n(places_to_.data() + me_ * slices_, slices_, places_from_.data() + me_ * slices_);
}

void RaggedAllToAllOperation::ReceiveRows(size_t member) {
  Spans rows(slices_);
  for (size_t i = member * slices_; i < (member + 1) * slices_; ++i) {
    if (places_from_[i].rows == 0) continue;
    char* const place = RowOf(arguments_.result, places_from_[i].offset);
    const size_t bytes = static_cast<size_t>(places_from_[i].rows) * arguments_.row_bytes;
    if (member == me_) {
      CopyLocally(InputRow(arguments_.numbers.input_offsets[i]), place, bytes);
    } else {
      rows.Add(place, bytes);
    }
  }
  if (member != me_) Receive(arguments_.group[member], SecondMessage(arguments_.key), std::move(rows));
}

bool RaggedAllToAllOperation::PlacesOverlap() const {
  std::vector<RaggedPlace> places;
  std::copy_if(places_from_.begin(), places_from_.end(), std::back_inserter(places),
               [](const RaggedPlace& place) { return place.rows > 0; });
  std::sort(places.begin(), places.end(),
            [](const RaggedPlace& a, const RaggedPlace& b) { return a.offset < b.offset; });
  return std::adjacent_find(places.begin(), places.end(), [](const RaggedPlace& a, const RaggedPlace& b) {
           return a.offset + a.rows > b.offset;
         }) != places.end();
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, RaggedAllToAllArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<RaggedAllToAllOperation>(context, std::move(arguments));
  }
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
