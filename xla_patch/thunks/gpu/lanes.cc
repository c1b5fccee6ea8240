#include "xla_patch/thunks/gpu/lanes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "xla_patch/nvshmem/gpu/reduction_kernels.h"
#include "xla_patch/thunks/gpu/launch_form.h"

namespace xla_shmem::gpu {
namespace {

int IndexOf(const std::vector<int>& group, int pe) {
  return static_cast<int>(std::find(group.begin(), group.end(), pe) - group.begin());
}

void CopyOperands(Device& device, const Buffers& buffers, CudaStream stream) {
  for (size_t i = 0; i < buffers.results.size(); ++i) {
    if (buffers.results[i] == buffers.operands[i]) continue;
    device.Copy(buffers.results[i], buffers.operands[i], buffers.bytes[i], stream);
  }
}

}  // namespace

Lanes::Lanes(Device* device, KernelOperations* operations, const LaneLayout& layout, int pe, char* memory)
    : device_(device), operations_(operations), layout_(layout), pe_(pe), memory_(memory) {
  for (const LaneUse use : {LaneUse::kOverlapping, LaneUse::kInLine}) {
    LaneSet& lanes = set(use).lanes;
    lanes.arrived = layout.Arrived(use);
    lanes.sent = layout.Sent(use);
    lanes.slots = layout.Slots(use);
    lanes.staging = layout.has_staging() ? layout.Staging(use) : 0;
    lanes.slot_bytes = layout.slot_bytes();
    lanes.packets = layout.Packets(use);
    lanes.packets_sent = layout.PacketsSent(use);
    lanes.packet_slot_bytes = layout.packet_slot_bytes();
    lanes.launches = reinterpret_cast<Word*>(memory + layout.Launches(use));
    lanes.progress = device->AllocateHostWords(PlaceOf(kLate, layout.n_pes()));
    lanes.pe = pe;
    lanes.n_pes = layout.n_pes();
  }
}

void Lanes::SetExchange(LaneUse use, const std::string& name, uint32_t tag, const std::vector<int>& members,
                        ExchangeArguments* arguments) {
  arguments->lanes = set(use).lanes;
  arguments->operation = operations_->NumberOf(name, tag, members);
  arguments->tag = tag;
  arguments->members = static_cast<int>(members.size());
  arguments->me = IndexOf(members, pe_);
  arguments->send_to = arguments->receive_from = kAllMembers;
  for (size_t i = 0; i < members.size(); ++i) {
    arguments->pes[i] = static_cast<unsigned short>(members[i]);
    arguments->arenas[i] = members[i] == pe_ ? memory_ : static_cast<char*>(device_->PeerAddress(memory_, members[i]));
  }
}

CollectiveArguments Lanes::Common(LaneUse use, const GroupArguments& group) {
  const bool is_first = group.group[0] == pe_;
  const bool hears_first = group.op == CollectiveOp::kCollectiveBroadcast && !is_first;
  CollectiveArguments arguments{};
  SetExchange(use, group.name, group.tag, hears_first ? std::vector<int>{group.group[0], pe_} : group.group,
              &arguments);
  arguments.shape = kMove;
  arguments.kind = static_cast<int>(group.reduction);
  switch (group.op) {
    case CollectiveOp::kAllReduce:
      arguments.shape = kReduce;  // or kTwoShot, by size
      break;
    case CollectiveOp::kReduceScatter:
      arguments.shape = kReduce;
      arguments.source_has_parts = true;
      break;
    case CollectiveOp::kAllGather:
      arguments.dest_has_parts = arguments.keeps_own = true;
      break;
    case CollectiveOp::kAllToAll:
      arguments.part_of_member = group.one_array_each;
      arguments.source_has_parts = arguments.dest_has_parts = !group.one_array_each;
      arguments.keeps_own = true;
      break;
    case CollectiveOp::kCollectiveBroadcast:  // the first member sends
      (is_first ? arguments.receive_from : arguments.send_to) = kNoMember;
      arguments.keeps_own = is_first;
      break;
    case CollectiveOp::kCollectivePermute:  // has arguments of its own
    case CollectiveOp::kRaggedAllToAll:     // has a kernel of its own (EnqueueRagged)
      break;
  }
  return arguments;
}

void Lanes::Launch(LaneUse use, CollectiveArguments* arguments, bool may_use_switch, size_t peers, CudaStream stream) {
  arguments->total = 0;
  if (arguments->part_of_member) {
    arguments->total = Padded(arguments->part[0].bytes);  // all arrays have this size
  } else {
    for (int i = 0; i < arguments->parts; ++i) arguments->total += Padded(arguments->part[i].bytes);
  }
  if (arguments->total == 0) return;
  const LaunchForm form = FormOf(layout_, arguments->shape, may_use_switch, arguments->total,
                                 static_cast<size_t>(arguments->members), peers);
  arguments->in_packets = form.in_packets;
  arguments->of_member = form.of_member;
  arguments->of_lane = form.of_lane;
  arguments->multicast = form.in_switch ? multicast_ : nullptr;
  LaneSet& lanes = arguments->lanes;
  lanes.shares_slots = form.shares_slots;
  lanes.slots = form.shares_slots ? layout_.SharedSlots(use) : layout_.Slots(use);
  lanes.slot_bytes = form.ChunkBytes(layout_);
  device_->LaunchCollective(*arguments, form.blocks, form.threads, stream);
}

KernelTicket Lanes::SetTicket(LaneUse use, bool in_graph, LaneSet* lanes) {
  Set& set = this->set(use);
  if (in_graph) {
    ++set.captured;
    return {};
  }
  lanes->ticket = ++set.tickets;
  return {&set.lanes, lanes->ticket};
}

KernelTicket Lanes::EnqueueRagged(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph) {
  const RaggedRows& rows = group.ragged;
  if (rows.row_bytes == 0 || rows.output_rows == 0) return {};
  RaggedArguments arguments{};
  SetExchange(use, group.name, group.tag, group.group, &arguments);
  static_cast<RaggedRows&>(arguments) = rows;
  arguments.output = group.buffers.results[0];
  // What each member would get if all of the input were sent, in equal parts.
  const size_t bytes = rows.input_rows * rows.row_bytes / group.group.size();
  const LaunchForm form = RaggedFormOf(layout_, bytes, group.group.size());
  const KernelTicket ticket = SetTicket(use, in_graph, &arguments.lanes);
  arguments.lanes.ends = true;
  device_->LaunchRaggedAllToAll(arguments, form.blocks, form.threads, stream);
  return ticket;
}

KernelTicket Lanes::Enqueue(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph) {
  const Buffers& buffers = group.buffers;
  if (group.group.empty()) {
    for (size_t i = 0; i < buffers.results.size(); ++i) device_->Fill(buffers.results[i], 0, buffers.bytes[i], stream);
    return {};
  }
  const bool is_ragged = group.op == CollectiveOp::kRaggedAllToAll;
  if (group.group.size() == 1 || is_ragged) CopyOperands(*device_, buffers, stream);
  if (is_ragged) return EnqueueRagged(use, group, stream, in_graph);
  if (group.group.size() == 1) return {};
  return EnqueueParts(use, buffers, &group, Common(use, group), stream, in_graph);
}

KernelTicket Lanes::Enqueue(LaneUse use, const PermuteArguments& permute, CudaStream stream, bool in_graph) {
  std::vector<int> members{pe_};
  const auto index_of = [&](int peer) {
    if (peer < 0) return kNoMember;
    if (IndexOf(members, peer) == static_cast<int>(members.size())) members.push_back(peer);
    return IndexOf(members, peer);
  };
  CollectiveArguments arguments{};
  const int source = index_of(OtherPe(permute.source, pe_));
  const int target = index_of(OtherPe(permute.target, pe_));
  SetExchange(use, permute.name, permute.tag, members, &arguments);
  arguments.shape = kMove;
  arguments.receive_from = source;
  arguments.send_to = target;
  arguments.keeps_own = permute.source == pe_;
  arguments.clears = permute.source < 0 && !permute.keeps_results;
  return EnqueueParts(use, permute.buffers, nullptr, arguments, stream, in_graph);
}

KernelTicket Lanes::EnqueueParts(LaneUse use, const Buffers& buffers, const GroupArguments* group,
                                 CollectiveArguments arguments, CudaStream stream, bool in_graph) {
  size_t with_bytes = buffers.bytes.size();  // operands up to the last that has bytes
  while (with_bytes > 0 && buffers.bytes[with_bytes - 1] == 0) --with_bytes;
  if (with_bytes == 0) return {};
  const KernelTicket ticket = SetTicket(use, in_graph, &arguments.lanes);
  const auto reduction_of = [&](size_t i) {
    const bool reduces = group != nullptr && IsReducing(group->op);
    return reduces ? FindKernelReduction(group->types[i], group->reduction) : std::nullopt;
  };
  // Of the PE with the most, because all members must choose alike.
  const size_t peers = group != nullptr ? group->group.size() - 1 : 1;
  const bool of_all = multicast_ != nullptr && group != nullptr && peers + 1 == static_cast<size_t>(layout_.n_pes());
  for (size_t i = 0; i < buffers.operands.size();) {
    const std::optional<KernelReduction> reduction = reduction_of(i);
    size_t bytes = 0;
    arguments.parts = 0;
    for (; i < buffers.operands.size() && arguments.parts < kMaxParts && reduction_of(i) == reduction; ++i) {
      const Word offset = arguments.part_of_member ? 0 : bytes;
      arguments.part[arguments.parts++] = {buffers.operands[i], buffers.results[i], buffers.bytes[i], offset};
      bytes += Padded(buffers.bytes[i]);
    }
    const bool may_use_switch =
        of_all && (reduction.has_value() ? IsInSwitch(*reduction) : group->op == CollectiveOp::kAllGather);
    if (reduction.has_value()) {
      arguments.elements = reduction->elements;
      arguments.kind = static_cast<int>(reduction->kind);
      // If each PE reduced for itself, the switch could give it other bits than another PE.
      const bool one_shot = !may_use_switch && bytes <= OneShotBytes(group->group.size());
      arguments.shape = group->op == CollectiveOp::kAllReduce && !one_shot ? kTwoShot : kReduce;
    }
    arguments.lanes.ends = i >= with_bytes;
    Launch(use, &arguments, may_use_switch, peers, stream);
    if (arguments.lanes.ends) break;
  }
  return ticket;
}

KernelProgress Lanes::progress(LaneUse use) { return operations_->Progress(set(use).lanes.progress); }

}  // namespace xla_shmem::gpu
