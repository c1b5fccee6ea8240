#include "xla_patch/thunks/gpu/split_permutes.h"

#include <numeric>
#include <string>
#include <utility>

#include "xla_patch/thunks/gpu/launch_form.h"

namespace xla_shmem::gpu {
namespace {

size_t MessageBytes(const Buffers& buffers) {
  return std::accumulate(buffers.bytes.begin(), buffers.bytes.end(), size_t{0},
                         [](size_t total, size_t bytes) { return total + Padded(bytes); });
}

}  // namespace

SplitPermutes::SplitPermutes(Device* device, KernelOperations* operations, Watchdog* watchdog,
                             const SplitLayout& layout, int pe, char* memory, uint64_t messages)
    : device_(device),
      operations_(operations),
      watchdog_(watchdog),
      layout_(layout),
      pe_(pe),
      memory_(memory),
      to_(layout.n_pes(), {messages, std::vector<Direction::Slot>(layout.num_slots())}),
      from_(to_) {}

bool SplitPermutes::Fits(const Buffers& buffers) const {
  return buffers.bytes.size() <= kMaxParts && MessageBytes(buffers) <= layout_.slot_bytes();
}

std::optional<uint64_t> SplitPermutes::Claim(Direction& direction) {
  Direction::Slot& slot = direction.Of(direction.messages);
  if (slot.in_use) return std::nullopt;
  slot.in_use = true;
  return direction.messages++;
}

SplitPermutes::Started SplitPermutes::Start(const PermuteArguments& permute, CudaStream stream) {
  Started started{permute, {}, {}, stream};
  if (MessageBytes(permute.buffers) == 0) return started;
  const int source = OtherPe(permute.source, pe_), target = OtherPe(permute.target, pe_);
  if (source >= 0) started.received = Claim(from_[source]);
  if (target >= 0) started.sent = Claim(to_[target]);
  if (started.sent.has_value()) {
    started.ticket = Launch(Device::Half::kSend, permute, target, *started.sent, stream);
  }
  return started;
}

std::optional<PermuteArguments> SplitPermutes::RestOf(const Started& started) const {
  PermuteArguments rest = started.permute;
  rest.source = started.received.has_value() ? -1 : OtherPe(rest.source, pe_);
  rest.target = started.sent.has_value() ? -1 : OtherPe(rest.target, pe_);
  rest.keeps_results = true;
  const bool is_none = (rest.source < 0 && rest.target < 0) || MessageBytes(rest.buffers) == 0;
  return is_none ? std::nullopt : std::optional(std::move(rest));
}

KernelTicket SplitPermutes::Finish(const Started& started, CudaStream stream) {
  const PermuteArguments& permute = started.permute;
  if (stream != started.stream) device_->Order(stream, started.stream);
  if (started.sent.has_value()) to_[permute.target].Of(*started.sent).in_use = false;
  if (started.received.has_value()) {
    from_[permute.source].Of(*started.received).in_use = false;
    return Launch(Device::Half::kReceive, permute, permute.source, *started.received, stream);
  }
  const bool copies = permute.source == pe_, clears = permute.source < 0 && !permute.keeps_results;
  if ((!copies && !clears) || MessageBytes(permute.buffers) == 0) return started.ticket;
  return Launch(Device::Half::kReceive, permute, -1, 0, stream);
}

SplitPermutes::Stream& SplitPermutes::StateOf(CudaStream stream) {
  for (Stream& known : streams_) {
    if (known.lanes.progress != nullptr && known.stream == stream) return known;
  }
  // XLA has one such stream, and a new one after clear_backends.
  Stream& chosen = streams_[next_stream_];
  if (chosen.lanes.progress == nullptr) {
    chosen.lanes.launches = reinterpret_cast<Word*>(memory_ + SplitLayout::Launches(static_cast<int>(next_stream_)));
    chosen.lanes.progress = device_->AllocateHostWords(PlaceOf(kLate, layout_.n_pes()));
    chosen.lanes.ends = true;
    chosen.lanes.pe = pe_;
    chosen.lanes.n_pes = layout_.n_pes();
    if (chosen.lanes.progress != nullptr) watchdog_->WatchKernels(operations_->Progress(chosen.lanes.progress));
  }
  next_stream_ = (next_stream_ + 1) % streams_.size();
  chosen.stream = stream;
  return chosen;
}

KernelTicket SplitPermutes::Launch(Device::Half half, const PermuteArguments& permute, int peer, uint64_t message,
                                   CudaStream stream) {
  const bool sends = half == Device::Half::kSend;
  Stream& state = StateOf(stream);
  SplitArguments arguments{};
  arguments.lanes = state.lanes;
  arguments.lanes.ticket = ++state.tickets;
  arguments.operation = operations_->NumberOf(permute.name, permute.tag, {peer < 0 ? pe_ : peer});
  arguments.tag = permute.tag;
  arguments.members = 1;
  arguments.pes[0] = static_cast<unsigned short>(pe_);
  arguments.arenas[0] = memory_;
  arguments.send_to = arguments.receive_from = kNoMember;
  if (peer >= 0) {
    arguments.members = 2;
    arguments.pes[1] = static_cast<unsigned short>(peer);
    arguments.arenas[1] = static_cast<char*>(device_->PeerAddress(memory_, peer));
    (sends ? arguments.send_to : arguments.receive_from) = 1;
    const int sender = sends ? pe_ : peer, receiver = sends ? peer : pe_;
    arguments.number = message + 1;
    arguments.before = arguments.number - layout_.num_slots();
    arguments.slot = layout_.Slot(receiver, sender, message);
    arguments.arrived = layout_.Arrived(sender, message);
    arguments.consumed = layout_.Consumed(receiver, message);
  }
  arguments.shape = kMove;
  arguments.keeps_own = permute.source == pe_;
  arguments.clears = permute.source < 0;
  const Buffers& buffers = permute.buffers;
  for (size_t i = 0; i < buffers.bytes.size(); ++i) {
    arguments.part[arguments.parts++] = {buffers.operands[i], buffers.results[i], buffers.bytes[i], arguments.total};
    arguments.total += Padded(buffers.bytes[i]);
  }
  const LaunchForm form = SplitFormOf(layout_, arguments.total);
  arguments.of_lane = form.of_lane;
  if (peer >= 0 && sends) {
    arguments.blocks_before = static_cast<int>(std::exchange(to_[peer].Of(message).blocks, form.blocks));
  }
  device_->LaunchSplit(half, arguments, form.blocks, form.threads, stream);
  return {&state.lanes, arguments.lanes.ticket};
}

}  // namespace xla_shmem::gpu
