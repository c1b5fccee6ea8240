#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

std::string Named(const char* array, size_t index, int64_t value) {
  return std::string(array) + "[" + std::to_string(index) + "] is " + std::to_string(value);
}

}  // namespace

RaggedAllToAllOperation::RaggedAllToAllOperation(const PeContext* context, RaggedAllToAllArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kRaggedAllToAll, arguments.key, arguments.name,
                          arguments.group.size()),
      arguments_(std::move(arguments)),
      me_(IndexIn(arguments_.group)),
      slices_(arguments_.numbers.send_sizes.size() / arguments_.group.size()) {
  const size_t result_bytes = static_cast<size_t>(arguments_.output_rows) * arguments_.row_bytes;
  const size_t input_bytes = static_cast<size_t>(arguments_.input_rows) * arguments_.row_bytes;
  std::vector<const char*> operands = {arguments_.input, arguments_.output};
  CopyOverlappingOperands({arguments_.result}, {result_bytes}, {nullptr, arguments_.result},
                          {input_bytes, result_bytes}, &operands, &copies_);
  arguments_.input = operands[0];
  arguments_.output = operands[1];
}

bool RaggedAllToAllOperation::DeclareMore() {
  switch (stage_) {
    case Stage::kNumbers:
      CheckNumbers();
      SendEverything();
      stage_ = Stage::kHeads;
      return true;
    case Stage::kHeads:
      for (size_t member = 0; member < arguments_.group.size(); ++member) CheckPlaces(member);
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

void RaggedAllToAllOperation::CheckRows(const char* offsets, int64_t offset, const char* sizes, int64_t size,
                                        size_t index, int64_t rows, const char* buffer) const {
  if (size == 0 || (offset >= 0 && size <= rows && offset <= rows - size)) return;
  throw std::runtime_error(Named(offsets, index, offset) + " and " + Named(sizes, index, size) + ", but the " + buffer +
                           " has " + std::to_string(rows) + " rows");
}

void RaggedAllToAllOperation::CheckNumbers() const {
  const RaggedNumbers& numbers = arguments_.numbers;
  for (size_t i = 0; i < numbers.send_sizes.size(); ++i) {
    if (numbers.send_sizes[i] < 0) throw std::runtime_error(Named("send_sizes", i, numbers.send_sizes[i]));
    if (numbers.receive_sizes[i] < 0) throw std::runtime_error(Named("recv_sizes", i, numbers.receive_sizes[i]));
    CheckRows("input_offsets", numbers.input_offsets[i], "send_sizes", numbers.send_sizes[i], i, arguments_.input_rows,
              "operand");
    const std::string output = "output on " + PeOf(i / slices_);
    CheckRows("output_offsets", numbers.output_offsets[i], "send_sizes", numbers.send_sizes[i], i,
              arguments_.output_rows, output.c_str());
  }
}

void RaggedAllToAllOperation::CheckPlaces(size_t member) const {
  for (size_t slice = 0; slice < slices_; ++slice) {
    const size_t here = member * slices_ + slice, there = me_ * slices_ + slice;
    const auto [offset, rows] = places_from_[here];
    if (rows != arguments_.numbers.receive_sizes[here]) {
      throw std::runtime_error(Named("recv_sizes", here, arguments_.numbers.receive_sizes[here]) + ", but " +
                               Named("send_sizes", there, rows) + " on " + PeOf(member));
    }
    // The sender has checked it too, against the same number of rows if it runs the same program.
    CheckRows(("on " + PeOf(member) + " output_offsets").c_str(), offset, "send_sizes", rows, there,
              arguments_.output_rows, "output here");
  }
}

void RaggedAllToAllOperation::SendEverything() {
  const auto& [key, name, group, input, output, result, row_bytes, input_rows, output_rows, numbers] = arguments_;
  CopyLocally(output, result, static_cast<size_t>(output_rows) * row_bytes);
  const size_t head_bytes = slices_ * sizeof(Place);
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
  std::vector<Place> places;
  std::copy_if(places_from_.begin(), places_from_.end(), std::back_inserter(places),
               [](const Place& place) { return place.rows > 0; });
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
  return std::adjacent_find(places.begin(), places.end(), [](const Place& a, const Place& b) {
           return a.offset + a.rows > b.offset;
         }) != places.end();
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, RaggedAllToAllArguments arguments) {
  return std::make_unique<RaggedAllToAllOperation>(context, std::move(arguments));
}

}  // namespace xla_shmem
