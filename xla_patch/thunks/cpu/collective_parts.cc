#include "xla_patch/thunks/cpu/collective_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "xla_patch/shm/copy_timer.h"

namespace xla_shmem {
namespace {

// Copies operands that share memory with a result; every part may go to any place.
void CopyOverlapping(PartArguments* arguments, OperandCopies* copies) {
  const auto not_in_place = [](size_t) -> const char* { return nullptr; };
  CopyOverlappingOperands(
      arguments->results.memory, [&](size_t result) { return arguments->results.bytes[result]; }, not_in_place,
      [&](size_t operand) { return arguments->operands.bytes[operand]; }, &arguments->operands.memory, copies);
}

// Parts in the order of `positions`; in the vectors they are `step` parts apart, from part `first` on.
std::vector<PartPlace> Places(const std::vector<int64_t>& positions, size_t first = 0, size_t step = 1) {
  std::vector<PartPlace> places;
  places.reserve(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    places.push_back({positions[i], static_cast<int64_t>(first + i * step)});
  }
  return places;
}

class ReduceScatterParts : public CollectiveOperation {
 public:
  ReduceScatterParts(const PeContext* context, ReduceScatterPartsArguments arguments)
      : CollectiveOperation(context, CollectiveOp::kReduceScatter, arguments.key, std::move(arguments.name),
                            arguments.group.size()) {
    CopyOverlapping(&arguments, &copies_);
    const auto& group = arguments.group;
    const auto& operands = arguments.operands;
    const auto& results = arguments.results;
    const size_t me = IndexIn(group);
    const auto ranges_of = [&](size_t member) {
      return CutParts(operands.bytes, results.bytes, Places(arguments.positions[member]), arguments.part_bytes);
    };
    const PartRanges mine = ranges_of(me);
    ClearPadding(results, mine.vector);
    for (size_t step = 1; step < group.size(); ++step) {
      const size_t to = (me + step) % group.size();
      Send(group[to], arguments.key, RangesOf(operands.memory, ranges_of(to).whole));
    }
    ReduceFrom(group, arguments.key,
               Reducer(arguments.reduction, std::vector<ElementType>(mine.whole.size(), arguments.type), me,
                       RangesOf(operands.memory, mine.whole), RangesOf(results.memory, mine.vector)),
               /*overwrites_sends=*/false);
  }

 private:
  // The padding is at the end of the last vector.
  void ClearPadding(const Arrays<char*>& results, const std::vector<ByteRange>& filled) {
    std::vector<size_t> ends(results.bytes.size(), 0);
    for (const ByteRange& range : filled) ends[range.buffer] = std::max(ends[range.buffer], range.end);
    for (size_t i = 0; i < ends.size(); ++i) {
      CopyLocally(nullptr, results.memory[i] + ends[i], results.bytes[i] - ends[i]);
    }
  }
};

class AllGatherParts : public CollectiveOperation {
 public:
  AllGatherParts(const PeContext* context, AllGatherPartsArguments arguments)
      : CollectiveOperation(context, CollectiveOp::kAllGather, arguments.key, std::move(arguments.name),
                            arguments.group.size()) {
    CopyOverlapping(&arguments, &copies_);
    const auto& group = arguments.group;
    const auto& operands = arguments.operands;
    const auto& results = arguments.results;
    const size_t me = IndexIn(group);
    const auto ranges_of = [&](size_t member) {
      return CutParts(results.bytes, operands.bytes, Places(arguments.positions[member]), arguments.part_bytes);
    };
    const PartRanges mine = ranges_of(me);
    for (size_t step = 1; step < group.size(); ++step) {
      const size_t to = (me + step) % group.size(), from = (me + group.size() - step) % group.size();
      Send(group[to], arguments.key, RangesOf(operands.memory, mine.vector));
      Receive(group[from], arguments.key, RangesOf(results.memory, ranges_of(from).whole));
    }
    for (size_t i = 0; i < mine.whole.size(); ++i) {
      CopyLocally(operands.memory[mine.vector[i].buffer] + mine.vector[i].begin,
                  results.memory[mine.whole[i].buffer] + mine.whole[i].begin, mine.whole[i].end - mine.whole[i].begin);
    }
  }
};

class AllToAllParts : public CollectiveOperation {
 public:
  AllToAllParts(const PeContext* context, AllToAllPartsArguments arguments)
      : CollectiveOperation(context, CollectiveOp::kAllToAll, arguments.key, std::move(arguments.name),
                            arguments.group.size()) {
    CopyOverlapping(&arguments, &copies_);
    const auto& group = arguments.group;
    const auto& operands = arguments.operands;
    const auto& results = arguments.results;
    const size_t me = IndexIn(group);
    // What PE `from` sends to PE `to`.
    const auto ranges_of = [&](size_t from, size_t to) {
      return CutParts(operands.bytes, results.bytes, Places(arguments.positions[to], from, group.size()),
                      arguments.part_bytes);
    };
    for (size_t step = 1; step < group.size(); ++step) {
      const size_t to = (me + step) % group.size(), from = (me + group.size() - step) % group.size();
      Send(group[to], arguments.key, RangesOf(operands.memory, ranges_of(me, to).whole));
      Receive(group[from], arguments.key, RangesOf(results.memory, ranges_of(from, me).vector));
    }
    const PartRanges own = ranges_of(me, me);
    for (size_t i = 0; i < own.whole.size(); ++i) {
      CopyLocally(operands.memory[own.whole[i].buffer] + own.whole[i].begin,
                  results.memory[own.vector[i].buffer] + own.vector[i].begin, own.whole[i].end - own.whole[i].begin);
    }
  }
};

class ReduceParts : public Operation {
 public:
  explicit ReduceParts(ReducePartsArguments arguments) : arguments_(std::move(arguments)) {
    CopyOverlapping(&arguments_, &copies_);
    const Arrays<const char*>& operands = arguments_.operands;
    const size_t part = arguments_.results.bytes[0];
    for (size_t i = 0; i < operands.memory.size(); ++i) {
      for (size_t offset = 0; offset < operands.bytes[i]; offset += part) terms_.push_back(operands.memory[i] + offset);
    }
  }

  bool Poll() override {
    const shm::ScopedCopyTimer timer;
    Reduce(arguments_.type, arguments_.reduction, terms_.data(), terms_.size(),
           arguments_.results.bytes[0] / ElementBytes(arguments_.type), arguments_.results.memory[0]);
    return true;
  }
  std::string Describe(const std::set<int>& /*pes*/) const override {
    return arguments_.name + " reduces within its PE";
  }
  std::set<int> WaitsFor() const override { return {}; }
  void Abandon() override {}

 private:
  ReducePartsArguments arguments_;
  OperandCopies copies_;
  std::vector<const char*> terms_;
};

class PermuteParts : public CollectiveOperation {
 public:
  PermuteParts(const PeContext* context, PermutePartsArguments arguments)
      : CollectiveOperation(context, CollectiveOp::kCollectivePermute, arguments.key, std::move(arguments.name), 0) {
    const size_t bytes = arguments.bytes;
    std::vector<const char*> operands = {arguments.operand};
    if (arguments.received != nullptr) operands.push_back(arguments.received);
    const auto bytes_of = [bytes](size_t) { return bytes; };
    const auto not_in_place = [](size_t) -> const char* { return nullptr; };
    CopyOverlappingOperands({arguments.result}, bytes_of, not_in_place, bytes_of, &operands, &copies_);
    const int me = context->pe;
    if (arguments.target >= 0 && arguments.target != me) {
      Send(arguments.target, arguments.key, Whole(operands[0], bytes));
    }
    if (arguments.source >= 0 && arguments.source != me) {
      Receive(arguments.source, arguments.key, Whole(arguments.result, bytes));
      return;
    }
    const char* const received = operands.size() > 1 ? operands[1] : nullptr;
    CopyLocally(arguments.source == me ? operands[0] : received, arguments.result, bytes);
  }

 private:
  static Spans Whole(const char* memory, size_t bytes) {
    Spans spans(1);
    spans.Add(memory, bytes);
    return spans;
  }
};

}  // namespace

std::unique_ptr<Operation> MakeOperation(const PeContext* context, ReduceScatterPartsArguments arguments) {
  return std::make_unique<ReduceScatterParts>(context, std::move(arguments));
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllGatherPartsArguments arguments) {
  return std::make_unique<AllGatherParts>(context, std::move(arguments));
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllToAllPartsArguments arguments) {
  return std::make_unique<AllToAllParts>(context, std::move(arguments));
}

std::unique_ptr<Operation> MakeOperation(const PeContext* /*context*/, ReducePartsArguments arguments) {
  return std::make_unique<ReduceParts>(std::move(arguments));
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermutePartsArguments arguments) {
  return std::make_unique<PermuteParts>(context, std::move(arguments));
}

}  // namespace xla_shmem
