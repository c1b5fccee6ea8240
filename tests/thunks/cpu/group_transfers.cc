#include "tests/thunks/cpu/group_transfers.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "xla_patch/thunks/cpu/collectives.h"

namespace xla_shmem::testing {
namespace {

size_t IndexOf(int pe, const std::vector<int>& group) {
  return static_cast<size_t>(std::find(group.begin(), group.end(), pe) - group.begin());
}

std::vector<BufferPair> GatherPairs(size_t me, size_t members, const std::vector<size_t>& bytes) {
  std::vector<BufferPair> pairs;
  for (size_t size : bytes) pairs.push_back({size, members * size, me * size, 0});
  return pairs;
}

// In place, the result is this PE's part of the operand.
std::vector<BufferPair> ScatterPairs(size_t me, const Reduction& reduction) {
  std::vector<BufferPair> pairs;
  for (size_t i = 0; i < reduction.types.size(); ++i) {
    const size_t size = reduction.elements[i] * ElementBytes(reduction.types[i]);
    pairs.push_back({reduction.group.size() * size, size, 0, me * size});
  }
  return pairs;
}

std::vector<size_t> ArrayOrTuple(size_t members, const std::vector<size_t>& bytes, bool array_form) {
  std::vector<size_t> buffers;
  if (array_form) {
    for (size_t size : bytes) buffers.push_back(members * size);
  } else {
    for (size_t member = 0; member < members; ++member) buffers.insert(buffers.end(), bytes.begin(), bytes.end());
  }
  return buffers;
}

// Without buffers.
CollectiveArguments ArgumentsOf(CollectiveOp op, const MessageKey& key, const std::vector<int>& group,
                                const std::vector<size_t>& bytes) {
  CollectiveArguments arguments;
  arguments.op = op;
  arguments.key = key;
  arguments.name = OpName(op) + ("." + std::to_string(key.operation));
  arguments.group = group;
  arguments.bytes = bytes;
  return arguments;
}

std::string Beside(int pe, const Buffers& buffers) {
  return buffers.GuardsIntact() ? "" : "PE " + std::to_string(pe) + ": bytes beside the buffers changed";
}

class AllGatherTransfer : public Transfer {
 public:
  AllGatherTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

AllGatherTransfer::AllGatherTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes,
                                     Placement placement)
    : key_(key),
      pe_(pe),
      group_(std::move(group)),
      bytes_(std::move(bytes)),
      buffers_(GatherPairs(IndexOf(pe, group_), group_.size(), bytes_), placement) {
  for (size_t i = 0; i < bytes_.size(); ++i) Fill(Seed(key_, pe_, i), buffers_.operand(i), bytes_[i]);
}

std::unique_ptr<Operation> AllGatherTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments = ArgumentsOf(CollectiveOp::kAllGather, key_, group_, bytes_);
  arguments.operands = buffers_.operands();
  arguments.results = buffers_.results();
  return MakeOperation(&context, std::move(arguments));
}

std::string AllGatherTransfer::Verdict() {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<char> expected(group_.size() * bytes_[i]);
    for (size_t member = 0; member < group_.size(); ++member) {
      Fill(Seed(key_, group_[member], i), expected.data() + member * bytes_[i], bytes_[i]);
    }
    const std::string wrong = Compare(pe_, i, expected, buffers_.result(i));
    if (!wrong.empty()) return wrong;
  }
  return Beside(pe_, buffers_);
}

class AllToAllTransfer : public Transfer {
 public:
  AllToAllTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, bool array_form,
                   Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  char* operand(size_t member, size_t buffer);
  char* result(size_t member, size_t buffer);

  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  bool array_form_;
  Buffers buffers_;
};

AllToAllTransfer::AllToAllTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes,
                                   bool array_form, Placement placement)
    : key_(key),
      pe_(pe),
      group_(std::move(group)),
      bytes_(std::move(bytes)),
      array_form_(array_form),
      buffers_(ArrayOrTuple(group_.size(), bytes_, array_form), placement) {
  for (size_t member = 0; member < group_.size(); ++member) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      Fill(Seed(key_, pe_, group_[member] * 100 + i), operand(member, i), bytes_[i]);
    }
  }
}

char* AllToAllTransfer::operand(size_t member, size_t buffer) {
  return array_form_ ? buffers_.operand(buffer) + member * bytes_[buffer]
                     : buffers_.operand(member * bytes_.size() + buffer);
}

char* AllToAllTransfer::result(size_t member, size_t buffer) {
  return array_form_ ? buffers_.result(buffer) + member * bytes_[buffer]
                     : buffers_.result(member * bytes_.size() + buffer);
}

std::unique_ptr<Operation> AllToAllTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments = ArgumentsOf(CollectiveOp::kAllToAll, key_, group_, bytes_);
  for (size_t member = 0; member < group_.size(); ++member) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      arguments.operands.push_back(operand(member, i));
      arguments.results.push_back(result(member, i));
    }
  }
  return MakeOperation(&context, std::move(arguments));
}

std::string AllToAllTransfer::Verdict() {
  for (size_t member = 0; member < group_.size(); ++member) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<char> expected(bytes_[i]);
      Fill(Seed(key_, group_[member], pe_ * 100 + i), expected.data(), bytes_[i]);
      const std::string wrong = Compare(pe_, member * bytes_.size() + i, expected, result(member, i));
      if (!wrong.empty()) return wrong;
    }
  }
  return Beside(pe_, buffers_);
}

class BroadcastTransfer : public Transfer {
 public:
  BroadcastTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

BroadcastTransfer::BroadcastTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes,
                                     Placement placement)
    : key_(key), pe_(pe), group_(std::move(group)), bytes_(std::move(bytes)), buffers_(bytes_, placement) {
  for (size_t i = 0; i < bytes_.size(); ++i) Fill(Seed(key_, pe_, i), buffers_.operand(i), bytes_[i]);
}

std::unique_ptr<Operation> BroadcastTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments = ArgumentsOf(CollectiveOp::kCollectiveBroadcast, key_, group_, bytes_);
  arguments.operands = buffers_.operands();
  arguments.results = buffers_.results();
  return MakeOperation(&context, std::move(arguments));
}

std::string BroadcastTransfer::Verdict() {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<char> expected(bytes_[i], 0);
    if (!group_.empty()) Fill(Seed(key_, group_[0], i), expected.data(), bytes_[i]);
    const std::string wrong = Compare(pe_, i, expected, buffers_.result(i));
    if (!wrong.empty()) return wrong;
  }
  return Beside(pe_, buffers_);
}

}  // namespace

std::vector<CollectiveOp> MovingGroupOps() {
  std::vector<CollectiveOp> ops;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    const bool moves = !IsReducing(info.op) && !UsesPairs(info.op) && info.shapes != ShapeRule::kRagged;
    if (moves && info.Has(op_trait::kOnCpu)) ops.push_back(info.op);
  }
  return ops;
}

std::unique_ptr<Transfer> MakeMovingTransfer(CollectiveOp op, MessageKey key, int pe, std::vector<int> group,
                                             std::vector<size_t> bytes, Placement placement, bool array_form) {
  switch (op) {
    case CollectiveOp::kAllGather:
      return std::make_unique<AllGatherTransfer>(key, pe, std::move(group), std::move(bytes), placement);
    case CollectiveOp::kAllToAll:
      return std::make_unique<AllToAllTransfer>(key, pe, std::move(group), std::move(bytes), array_form, placement);
    case CollectiveOp::kCollectiveBroadcast:
      return std::make_unique<BroadcastTransfer>(key, pe, std::move(group), std::move(bytes), placement);
    default:
      throw std::invalid_argument(std::string("no transfer that moves bytes by ") + OpName(op));
  }
}

ReduceScatterTransfer::ReduceScatterTransfer(MessageKey key, int pe, Reduction reduction, Placement placement)
    : key_(key),
      pe_(pe),
      reduction_(std::move(reduction)),
      me_(IndexOf(pe, reduction_.group)),
      buffers_(ScatterPairs(me_, reduction_), placement) {
  const size_t members = reduction_.group.size();
  for (size_t i = 0; i < reduction_.types.size(); ++i) {
    bytes_.push_back(reduction_.elements[i] * ElementBytes(reduction_.types[i]));
    const auto operand = AllReduceOperand(key_, pe_, i, reduction_.types[i], members * reduction_.elements[i]);
    std::copy(operand.begin(), operand.end(), buffers_.operand(i));
  }
}

std::unique_ptr<Operation> ReduceScatterTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments = ArgumentsOf(CollectiveOp::kReduceScatter, key_, reduction_.group, bytes_);
  arguments.reduction = reduction_.kind;
  arguments.types = reduction_.types;
  arguments.operands = buffers_.operands();
  arguments.results = buffers_.results();
  return MakeOperation(&context, std::move(arguments));
}

std::string ReduceScatterTransfer::Verdict() {
  const size_t members = reduction_.group.size();
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<std::vector<char>> operands;
    std::vector<const char*> parts;
    for (int pe : reduction_.group) {
      operands.push_back(AllReduceOperand(key_, pe, i, reduction_.types[i], members * reduction_.elements[i]));
      parts.push_back(operands.back().data() + me_ * bytes_[i]);
    }
    std::vector<char> expected(bytes_[i]);
    Reduce(reduction_.types[i], reduction_.kind, parts.data(), parts.size(), reduction_.elements[i], expected.data());
    const std::string wrong = Compare(pe_, i, expected, buffers_.result(i));
    if (!wrong.empty()) return wrong;
  }
  return Beside(pe_, buffers_);
}

}  // namespace xla_shmem::testing
