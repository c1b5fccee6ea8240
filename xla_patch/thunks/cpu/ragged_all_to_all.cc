#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

#include <algorithm>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/ragged_in_process.h"

namespace xla_shmem {

size_t SlicesOf(const RaggedAllToAllArguments& arguments) {
  return arguments.numbers.send_sizes.size() / arguments.group.size();
}

OperandCopies CopyOverlapping(RaggedAllToAllArguments* arguments) {
  const size_t result_bytes = static_cast<size_t>(arguments->output_rows) * arguments->row_bytes;
  const size_t input_bytes = static_cast<size_t>(arguments->input_rows) * arguments->row_bytes;
  std::vector<const char*> operands = {arguments->input, arguments->output};
  OperandCopies copies;
  CopyOverlappingOperands({arguments->result}, {result_bytes}, {nullptr, arguments->result},
                          {input_bytes, result_bytes}, &operands, &copies);
  arguments->input = operands[0];
  arguments->output = operands[1];
  return copies;
}

RaggedAllToAllOperation::RaggedAllToAllOperation(const PeContext* context, RaggedAllToAllArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kRaggedAllToAll, arguments.key, arguments.name,
                          arguments.group.size()),
      arguments_(std::move(arguments)),
      me_(IndexIn(arguments_.group)),
      slices_(SlicesOf(arguments_)),
      checks_(arguments_.group, slices_, arguments_.input_rows, arguments_.output_rows) {
  copies_ = CopyOverlapping(&arguments_);
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
  if (IsInProcess(*context, arguments.group)) return MakeRaggedInProcess(context, std::move(arguments));
  return std::make_unique<RaggedAllToAllOperation>(context, std::move(arguments));
}

}  // namespace xla_shmem
