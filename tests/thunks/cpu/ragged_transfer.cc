#include "tests/thunks/cpu/ragged_transfer.h"

#include <algorithm>
#include <random>
#include <utility>

namespace xla_shmem::testing {
namespace {

constexpr int64_t kNowhere = -1'000'000'000'000;  // the offset of a slice without rows

int64_t RowsOfBuffer(size_t members, const RaggedRows& rows) {
  return static_cast<int64_t>(members * rows.slices) * (rows.most + 2);
}

std::vector<RaggedNumbers> Draw(MessageKey key, size_t members, const RaggedRows& rows) {
  std::mt19937_64 random(Seed(key, 0, 999));
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  const size_t count = members * rows.slices;
  std::vector<RaggedNumbers> numbers(members);
  for (RaggedNumbers& of : numbers) {
    for (auto* array : {&of.input_offsets, &of.output_offsets}) array->assign(count, kNowhere);
    for (auto* array : {&of.send_sizes, &of.receive_sizes}) array->assign(count, 0);
  }
  std::vector<int64_t> sent(members, 0), filled(members, 0);
  for (size_t from = 0; from < members; ++from) {
    for (size_t to = 0; to < members; ++to) {
      for (size_t slice = 0; slice < rows.slices; ++slice) {
        const int64_t size = random() % 3 == 0 ? 0 : 1 + below(rows.most);
        if (size == 0) continue;
        const size_t there = to * rows.slices + slice, here = from * rows.slices + slice;
        const int64_t end = RowsOfBuffer(members, rows) - size + 1;
        const int64_t source = rows.overlapping ? below(end) : sent[from] + below(3);
        const int64_t target = rows.overlapping ? below(end) : filled[to] + below(3);
        numbers[from].input_offsets[there] = source;
        numbers[from].output_offsets[there] = target;
        numbers[from].send_sizes[there] = numbers[to].receive_sizes[here] = size;
        sent[from] = source + size;
        filled[to] = target + size;
      }
    }
  }
  return numbers;
}

}  // namespace

RaggedTransfer::RaggedTransfer(MessageKey key, int pe, std::vector<int> group, RaggedRows rows, Placement placement)
    : key_(key),
      pe_(pe),
      group_(std::move(group)),
      rows_(rows),
      bytes_(static_cast<size_t>(RowsOfBuffer(group_.size(), rows)) * rows.row_bytes),
      numbers_(Draw(key, group_.size(), rows)),
      buffers_({bytes_, bytes_}, placement) {
  const size_t me = static_cast<size_t>(std::find(group_.begin(), group_.end(), pe) - group_.begin());
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<char> content = Content(pe, i);
    std::copy(content.begin(), content.end(), buffers_.operand(i));
  }
  arguments_.key = key_;
  arguments_.name = "ragged-all-to-all." + std::to_string(key_.operation);
  arguments_.group = group_;
  arguments_.output = buffers_.operand(0);
  arguments_.input = buffers_.operand(1);
  arguments_.result = buffers_.result(0);
  arguments_.row_bytes = rows_.row_bytes;
  arguments_.input_rows = arguments_.output_rows = RowsOfBuffer(group_.size(), rows_);
  arguments_.numbers = numbers_[me];
}

std::vector<char> RaggedTransfer::Content(int pe, size_t index) const {
  std::vector<char> content(bytes_);
  Fill(Seed(key_, pe, index), content.data(), bytes_);
  return content;
}

std::unique_ptr<Operation> RaggedTransfer::Begin(const PeContext& context) {
  return MakeOperation(&context, arguments_);
}

std::string RaggedTransfer::Verdict() {
  std::vector<char> expected = Content(pe_, 0);
  const size_t me = static_cast<size_t>(std::find(group_.begin(), group_.end(), pe_) - group_.begin());
  for (size_t from = 0; from < group_.size(); ++from) {
    const std::vector<char> input = Content(group_[from], 1);
    for (size_t i = me * rows_.slices; i < (me + 1) * rows_.slices; ++i) {
      const int64_t size = numbers_[from].send_sizes[i];
      if (size == 0) continue;
      const auto row = [&](int64_t number) { return static_cast<std::ptrdiff_t>(number * rows_.row_bytes); };
      std::copy_n(input.begin() + row(numbers_[from].input_offsets[i]), row(size),
                  expected.begin() + row(numbers_[from].output_offsets[i]));
    }
  }
  const std::string wrong = Compare(pe_, 0, expected, buffers_.result(0));
  if (!wrong.empty()) return wrong;
  return buffers_.GuardsIntact() ? "" : "PE " + std::to_string(pe_) + ": bytes beside the buffers changed";
}

}  // namespace xla_shmem::testing
