#include "xla_patch/thunks/cpu/collectives.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "xla_patch/thunks/cpu/collective_operation.h"
#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

size_t OperandBytes(const CollectiveArguments& arguments) {
  const size_t bytes = std::accumulate(arguments.bytes.begin(), arguments.bytes.end(), size_t{0});
  return bytes * OperandParts(arguments.op, arguments.group.size());
}

size_t PaddedBytes(const std::vector<size_t>& bytes) {
  size_t total = 0;
  for (const size_t size : bytes) total += AlignedPiece(size);
  return total;
}

// Copies the operands that would be overwritten before they are read. `me`: index of the local PE in the group. True if
// an operand is in place in a result.
bool CopyOverlapping(size_t me, CollectiveArguments* arguments, OperandCopies* copies) {
  const size_t members = arguments->group.size();
  const bool reads_nothing = members == 0 || me != 0;
  if (arguments->op == CollectiveOp::kCollectiveBroadcast && reads_nothing) return false;
  const std::vector<char*>& results = arguments->results;
  const std::vector<size_t>& bytes = arguments->bytes;
  const size_t operand_parts = OperandParts(arguments->op, members), result_parts = ResultParts(arguments->op, members);
  // An all-to-all has `bytes.size()` buffers for each member, and each of them is one part.
  const bool per_member = arguments->op == CollectiveOp::kAllToAll;
  const auto bytes_of = [&](size_t parts) {
    return [&bytes, per_member, parts](size_t i) { return per_member ? bytes[i % bytes.size()] : bytes[i] * parts; };
  };
  const auto in_place_at = [&](size_t i) -> const char* {
    if (operand_parts == result_parts) return results[i];
    return operand_parts == 1 ? results[i] + me * bytes[i] : nullptr;
  };
  return CopyOverlappingOperands(results, bytes_of(result_parts), in_place_at, bytes_of(operand_parts),
                                 &arguments->operands, copies);
}

size_t IndexOf(int pe, const std::vector<int>& group) {
  return static_cast<size_t>(std::find(group.begin(), group.end(), pe) - group.begin());
}

using Members = std::vector<MemberBuffers>;

void PlanAllReduce(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  for (size_t i = 0; i < arguments.bytes.size(); ++i) {
    std::vector<const char*> terms;
    std::vector<char*> sums;
    for (const MemberBuffers& member : members) {
      terms.push_back(member.operands[i]);
      sums.push_back(member.results[i]);
    }
    plan->AddReduction(arguments.types[i], arguments.reduction, terms, sums, arguments.bytes[i]);
  }
}

void PlanPermute(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  const std::vector<int>& pairs = arguments.pairs;
  for (size_t i = 0; i < arguments.bytes.size(); ++i) {
    std::vector<InProcessPlan::Move> moves;
    moves.reserve(members.size());
    for (const MemberBuffers& member : members) moves.push_back({nullptr, member.results[i]});
    for (size_t pair = 0; pair + 1 < pairs.size(); pair += 2) {
      moves[IndexOf(pairs[pair + 1], arguments.group)].from =
          members[IndexOf(pairs[pair], arguments.group)].operands[i];
    }
    plan->AddMoves(moves, arguments.bytes[i]);
  }
}

void PlanAllGather(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  std::vector<InProcessPlan::Move> moves;
  for (size_t i = 0; i < arguments.bytes.size(); ++i) {
    for (size_t part = 0; part < members.size(); ++part) {
      moves.clear();
      for (const MemberBuffers& member : members) {
        moves.push_back({members[part].operands[i], member.results[i] + part * arguments.bytes[i]});
      }
      plan->AddMoves(moves, arguments.bytes[i]);
    }
  }
}

void PlanReduceScatter(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  std::vector<const char*> terms;
  for (size_t i = 0; i < arguments.bytes.size(); ++i) {
    for (size_t part = 0; part < members.size(); ++part) {
      terms.clear();
      for (const MemberBuffers& member : members) terms.push_back(member.operands[i] + part * arguments.bytes[i]);
      plan->AddReduction(arguments.types[i], arguments.reduction, terms, {members[part].results[i]},
                         arguments.bytes[i]);
    }
  }
}

void PlanAllToAll(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  const size_t buffers = arguments.bytes.size();
  std::vector<InProcessPlan::Move> moves;
  for (size_t one = 0; one < members.size(); ++one) {
    for (size_t other = one; other < members.size(); ++other) {
      for (size_t i = 0; i < buffers; ++i) {
        const size_t to_one = one * buffers + i, to_other = other * buffers + i;
        moves = {{members[one].operands[to_other], members[other].results[to_one]}};
        if (one != other) moves.push_back({members[other].operands[to_one], members[one].results[to_other]});
        plan->AddMoves(moves, arguments.bytes[i]);
      }
    }
  }
}

void PlanBroadcast(const CollectiveArguments& arguments, const Members& members, InProcessPlan* plan) {
  for (size_t i = 0; i < arguments.bytes.size(); ++i) {
    std::vector<InProcessPlan::Move> moves;
    moves.reserve(members.size());
    for (const MemberBuffers& member : members) moves.push_back({members[0].operands[i], member.results[i]});
    plan->AddMoves(moves, arguments.bytes[i]);
  }
}

// `arguments`: of any member, without buffers.
InProcessPlan Plan(const CollectiveArguments& arguments, const Members& members) {
  InProcessPlan plan;
  switch (arguments.op) {
    case CollectiveOp::kAllReduce:
      PlanAllReduce(arguments, members, &plan);
      break;
    case CollectiveOp::kCollectivePermute:
      PlanPermute(arguments, members, &plan);
      break;
    case CollectiveOp::kAllGather:
      PlanAllGather(arguments, members, &plan);
      break;
    case CollectiveOp::kReduceScatter:
      PlanReduceScatter(arguments, members, &plan);
      break;
    case CollectiveOp::kAllToAll:
      PlanAllToAll(arguments, members, &plan);
      break;
    case CollectiveOp::kCollectiveBroadcast:
      PlanBroadcast(arguments, members, &plan);
      break;
    case CollectiveOp::kRaggedAllToAll:  // has arguments of its own
      XLA_SHMEM_INVARIANT(arguments.op, !=, CollectiveOp::kRaggedAllToAll);
  }
  return plan;
}

// The pairs that share PEs with the local PE, directly or through other pairs, in the order of `pairs`; {} if they have
// PEs of another process.
std::vector<int> PairsWithinProcess(const PeContext& context, const std::vector<int>& pairs) {
  if (context.meetings == nullptr) return {};
  std::vector<int> connected = {context.pe};  // PEs of this process, so few
  const auto is_connected = [&](int pe) {
    return std::find(connected.begin(), connected.end(), pe) != connected.end();
  };
  for (size_t before = 0; before != connected.size();) {
    before = connected.size();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const bool has_source = is_connected(pairs[i]);
      if (has_source == is_connected(pairs[i + 1])) continue;
      const int other = has_source ? pairs[i + 1] : pairs[i];
      if (!context.heap->IsLocal(other)) return {};
      connected.push_back(other);
    }
  }
  std::vector<int> found;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_connected(pairs[i])) found.insert(found.end(), {pairs[i], pairs[i + 1]});
  }
  return found;
}

// Leaves of a permute only what meets within this process: these pairs, and their PEs as its group. A branch may leave
// the other PEs out. False, and nothing is changed, if that are fewer than two.
bool NarrowToProcess(const PeContext& context, CollectiveArguments* permute) {
  std::vector<int> pairs = PairsWithinProcess(context, permute->pairs);
  std::vector<int> group(pairs);
  std::sort(group.begin(), group.end());
  group.erase(std::unique(group.begin(), group.end()), group.end());
  if (group.size() < 2) return false;
  permute->pairs = std::move(pairs);
  permute->group = std::move(group);
  return true;
}

// By messages, also between PEs of one process.
class MessageCollective : public CollectiveOperation {
 public:
  MessageCollective(const PeContext* context, CollectiveArguments&& arguments);

 private:
  // Each declares the messages and copies of its op; those that reduce take the types. `in_place`: an operand has the
  // memory of its result.
  void AllReduce(CollectiveArguments& arguments, bool in_place);
  void OneShot(CollectiveArguments& arguments, bool in_place);
  void TwoShot(const CollectiveArguments& arguments);
  void Permute(const CollectiveArguments& arguments, bool in_place);
  void AllGather(const CollectiveArguments& arguments);
  void ReduceScatter(CollectiveArguments& arguments);
  void AllToAll(const CollectiveArguments& arguments, bool in_place);
  void Broadcast(const CollectiveArguments& arguments);
};

MessageCollective::MessageCollective(const PeContext* context, CollectiveArguments&& arguments)
    : CollectiveOperation(context, arguments.op, arguments.key, std::move(arguments.name), arguments.group.size()) {
  const bool in_place = CopyOverlapping(IndexIn(arguments.group), &arguments, &copies_);
  switch (arguments.op) {
    case CollectiveOp::kAllReduce:
      AllReduce(arguments, in_place);
      break;
    case CollectiveOp::kCollectivePermute:
      Permute(arguments, in_place);
      break;
    case CollectiveOp::kAllGather:
      AllGather(arguments);
      break;
    case CollectiveOp::kReduceScatter:
      ReduceScatter(arguments);
      break;
    case CollectiveOp::kAllToAll:
      AllToAll(arguments, in_place);
      break;
    case CollectiveOp::kCollectiveBroadcast:
      Broadcast(arguments);
      break;
    case CollectiveOp::kRaggedAllToAll:  // has arguments of its own
      XLA_SHMEM_INVARIANT(arguments.op, !=, CollectiveOp::kRaggedAllToAll);
  }
  SetBytes(OperandBytes(arguments));
}

void MessageCollective::AllReduce(CollectiveArguments& arguments, bool in_place) {
  const std::vector<int>& group = arguments.group;
  if (group.size() == 1) {
    for (size_t i = 0; i < arguments.results.size(); ++i) {
      CopyLocally(arguments.operands[i], arguments.results[i], arguments.bytes[i]);
    }
  } else if (PaddedBytes(arguments.bytes) <=
             OneShotLimitBytes(group.size(), context().cross_memory_reader->HaveSharedBuffers(group))) {
    OneShot(arguments, in_place);
  } else {
    TwoShot(arguments);
  }
}

void MessageCollective::OneShot(CollectiveArguments& arguments, bool in_place) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const size_t me = IndexIn(group);
  for (size_t step = 1; step < group.size(); ++step) {
    Send(group[(me + step) % group.size()], arguments.key, PartsOf(operands, bytes, 0));
  }
  ReduceFrom(group, arguments.key,
             Reducer(arguments.reduction, std::move(arguments.types), me, PartsOf(operands, bytes, 0),
                     PartsOf(results, bytes, 0)),
             in_place);
}

void MessageCollective::TwoShot(const CollectiveArguments& arguments) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const int members = static_cast<int>(group.size());
  const size_t me = IndexIn(group);
  const std::vector<ByteRange> mine = PartOfBuffers(bytes, static_cast<int>(me), members);
  for (int step = 1; step < members; ++step) {
    const size_t peer = (me + step) % members;
    const std::vector<ByteRange> part = PartOfBuffers(bytes, static_cast<int>(peer), members);
    Send(group[peer], arguments.key, RangesOf(operands, part));
    // In place this overwrites the operands that the peer has already reduced.
    Receive(group[peer], SecondMessage(arguments.key), RangesOf(results, part));
  }
  for (int step = 1; step < members; ++step) {
    Send(group[(me + step) % members], SecondMessage(arguments.key), RangesOf(results, mine), Source::kReduced);
  }
  std::vector<ElementType> types_of_mine;
  types_of_mine.reserve(mine.size());
  for (const ByteRange& range : mine) types_of_mine.push_back(arguments.types[range.buffer]);
  ReduceFrom(
      group, arguments.key,
      Reducer(arguments.reduction, std::move(types_of_mine), me, RangesOf(operands, mine), RangesOf(results, mine)),
      /*overwrites_sends=*/false);
}

void MessageCollective::Permute(const CollectiveArguments& arguments, bool in_place) {
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const int me = context().pe;
  const bool sends = arguments.target >= 0 && arguments.target != me;
  if (sends) {
    Send(arguments.target, arguments.key, PartsOf(operands, bytes, 0), Source::kOperands, /*overwritten=*/in_place);
  }
  if (arguments.source >= 0 && arguments.source != me) {
    Receive(arguments.source, arguments.key, PartsOf(results, bytes, 0), sends && in_place ? 0 : -1);
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    CopyLocally(arguments.source == me ? operands[i] : nullptr, results[i], bytes[i], in_place);
  }
}

void MessageCollective::AllGather(const CollectiveArguments& arguments) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const size_t me = IndexIn(group);
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me + step) % group.size(), from = (me + group.size() - step) % group.size();
    Send(group[to], arguments.key, PartsOf(operands, bytes, 0));
    Receive(group[from], arguments.key, PartsOf(results, bytes, from));
  }
  for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], results[i] + me * bytes[i], bytes[i]);
}

void MessageCollective::ReduceScatter(CollectiveArguments& arguments) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const size_t me = IndexIn(group);
  if (group.size() == 1) {
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], results[i], bytes[i]);
    return;
  }
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me + step) % group.size();
    Send(group[to], arguments.key, PartsOf(operands, bytes, to));
  }
  ReduceFrom(group, arguments.key,
             Reducer(arguments.reduction, std::move(arguments.types), me, PartsOf(operands, bytes, me),
                     PartsOf(results, bytes, 0)),
             /*overwrites_sends=*/false);
}

void MessageCollective::AllToAll(const CollectiveArguments& arguments, bool in_place) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  const size_t me = IndexIn(group), buffers = bytes.size();
  const auto with = [&](const auto& pointers, size_t member) {
    Spans spans(buffers);
    for (size_t i = 0; i < buffers; ++i) spans.Add(pointers[member * buffers + i], bytes[i]);
    return spans;
  };
  // In place, the message to a member and the message from it have the same memory.
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t peer = (me + step) % group.size();
    Send(group[peer], arguments.key, with(operands, peer), Source::kOperands, /*overwritten=*/in_place);
    Receive(group[peer], arguments.key, with(results, peer), in_place ? static_cast<int>(step) - 1 : -1);
  }
  for (size_t i = 0; i < buffers; ++i) CopyLocally(operands[me * buffers + i], results[me * buffers + i], bytes[i]);
}

void MessageCollective::Broadcast(const CollectiveArguments& arguments) {
  const std::vector<int>& group = arguments.group;
  const std::vector<const char*>& operands = arguments.operands;
  const std::vector<char*>& results = arguments.results;
  const std::vector<size_t>& bytes = arguments.bytes;
  if (group.empty()) {
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(nullptr, results[i], bytes[i]);
  } else if (group[0] != context().pe) {
    Receive(group[0], arguments.key, PartsOf(results, bytes, 0));
  } else {
    for (size_t member = 1; member < group.size(); ++member) {
      Send(group[member], arguments.key, PartsOf(operands, bytes, 0));
    }
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], results[i], bytes[i]);
  }
}

}  // namespace

size_t OneShotLimitBytes(size_t group_size, bool have_shared_buffers) {
  constexpr size_t kOfTwo = 1 << 20, kOfFew = 64 << 10, kPairLimit = 64 << 10;
  // Two members send as many bytes either way. One exchange was 0.9 to 2.1 times as fast by system calls from 128 KiB
  // to 1 MiB, and 1.1 to 4.0 times by loads up to 16 MiB. Slots lose above.
  if (group_size == 2) return have_shared_buffers ? SIZE_MAX : kOfTwo;
  // By loads, of 4 and 8 members, 1.1 to 1.4 times from 32 to 64 KiB; of 16, 0.9 to 1.0 times.
  if (have_shared_buffers && group_size <= 8) return kOfFew;
  return kPairLimit / std::max<size_t>(group_size - 1, 1);
}

std::unique_ptr<Operation> MakeMessageOperation(const PeContext* context, CollectiveArguments&& arguments) {
  return std::make_unique<MessageCollective>(context, std::move(arguments));
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, CollectiveArguments&& arguments) {
  const bool is_in_process =
      UsesPairs(arguments.op) ? NarrowToProcess(*context, &arguments) : IsInProcess(*context, arguments.group);
  if (!is_in_process) return MakeMessageOperation(context, std::move(arguments));
  OperandCopies copies;
  CopyOverlapping(IndexOf(context->pe, arguments.group), &arguments, &copies);
  const size_t bytes = OperandBytes(arguments);
  MemberBuffers buffers{std::move(arguments.operands), std::move(arguments.results)};
  const auto [op, key] = std::pair(arguments.op, arguments.key);
  std::string name = std::move(arguments.name);
  std::vector<int> group = arguments.group;
  auto plan = [arguments = std::move(arguments)](const Members& members) { return Plan(arguments, members); };
  return std::make_unique<InProcessCollective>(context, op, key, std::move(name), std::move(group), std::move(buffers),
                                               std::move(copies), bytes, std::move(plan));
}

}  // namespace xla_shmem
