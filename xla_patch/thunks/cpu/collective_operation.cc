#include "xla_patch/thunks/cpu/collective_operation.h"

#include <string.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "xla_patch/shm/copy.h"
#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/shm/steady_clock.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

// After this many polls, one or two microseconds, a message that may still come to a mailbox gets a grant too, because
// its sender may have found no free mailbox.
constexpr int kGrantDelayPolls = 64;

}  // namespace

const char* CopyOf(const char* operand, size_t bytes, OperandCopies* copies) {
  copies->push_back(std::make_unique<char[]>(bytes));
  memcpy(copies->back().get(), operand, bytes);
  return copies->back().get();
}

std::string NameRun(uint64_t execution) {
  constexpr int kRun = 32;  // MessageKey::execution
  const uint64_t before = execution & 0xffffffff;
  return "run " + std::to_string((execution >> kRun) + 1) +
         (before == 0 ? "" : ", execution " + std::to_string(before + 1) + " in it");
}

std::string NameExecution(CollectiveOp op, const std::string& name, size_t bytes, size_t members, int pe,
                          const MessageKey& key) {
  return std::string(OpName(op)) + " " + name + " (" + std::to_string(bytes) + " bytes" +
         (members == 0 ? "" : ", " + std::to_string(members) + " PEs") + ") on PE " + std::to_string(pe) + ", " +
         NameRun(key.execution);
}

int PatienceFor(size_t bytes) {
  constexpr size_t kOnce = 256 << 10, kMost = 8 << 20;
  return 1 + static_cast<int>(std::min(bytes, kMost) / kOnce);
}

std::string NameMissing(const std::set<int>& missing) {
  std::string text;
  const char* before = "; not arrived at this operation: PE ";
  for (int pe : missing) {
    text += before + std::to_string(pe);
    before = ", ";
  }
  return text;
}

CollectiveOperation::CollectiveOperation(const PeContext* context, CollectiveOp op, const MessageKey& key,
                                         std::string name, size_t members)
    : context_(context), op_(op), key_(key), name_(std::move(name)), members_(members) {}

size_t CollectiveOperation::IndexIn(const std::vector<int>& group) const {
  return static_cast<size_t>(std::find(group.begin(), group.end(), context_->pe) - group.begin());
}

void CollectiveOperation::Send(int pe, const MessageKey& key, Spans memory, Source source, bool overwritten) {
  XLA_SHMEM_INVARIANT(pe, !=, context_->pe);
  XLA_SHMEM_INVARIANT(pe, <, context_->heap->n_pes());
  if (source == Source::kOperands) bytes_ = std::max(bytes_, memory.bytes());
  if (sends_.empty()) sends_.reserve(members_);
  sends_.push_back({MessageSender(pe, key, std::move(memory), overwritten), source});
}

void CollectiveOperation::Receive(int pe, const MessageKey& key, Spans memory, int overwritten_send) {
  XLA_SHMEM_INVARIANT(pe, !=, context_->pe);
  XLA_SHMEM_INVARIANT(overwritten_send, <, static_cast<int>(sends_.size()));
  bytes_ = std::max(bytes_, memory.bytes());
  if (receives_.empty()) receives_.reserve(members_);
  receives_.push_back({MessageReceiver(pe, key, std::move(memory)), overwritten_send});
  MessageReceiver& message = receives_.back().message;
  if (way_ == ProtocolChoice::Way::kSlots && message.HasChoice(*context_)) message.ExpectSlots();
}

void CollectiveOperation::ReduceFrom(const std::vector<int>& group, const MessageKey& key, Reducer reducer,
                                     bool overwrites_sends) {
  reducer_.emplace(std::move(reducer));
  reduction_overwrites_sends_ = overwrites_sends;
  reducer_->contributions().reserve(group.size() - 1);
  for (int pe : group) {
    if (pe != context_->pe) reducer_->contributions().push_back({MessageReceiver(pe, key, reducer_->result())});
  }
  XLA_SHMEM_INVARIANT(reducer_->contributions().size() + 1, ==, group.size());
}

void CollectiveOperation::CopyLocally(const char* from, char* to, size_t bytes, bool overwrites_sends) {
  if (from == to || bytes == 0) return;
  local_copies_.push_back({from, to, bytes});
  copies_overwrite_sends_ |= overwrites_sends;
}

// A large transfer whose peers keep up could go on for seconds. Other operations of the engine must be polled too, and
// the process must look at its waits.
bool CollectiveOperation::AdvanceForAWhile() {
  constexpr int kRoundsWithoutClock = 16;
  constexpr auto kWhile = std::chrono::milliseconds(20);
  std::chrono::steady_clock::time_point begin;
  bool made_progress = false;
  for (int round = 0; AdvanceOnce(); ++round) {
    made_progress = true;
    if (round < kRoundsWithoutClock) continue;
    const auto now = std::chrono::steady_clock::now();
    if (round == kRoundsWithoutClock) begin = now;
    if (now - begin > kWhile) break;
  }
  return made_progress;
}

bool CollectiveOperation::Poll() {
  if (polls_ == 0) {
    ChooseProtocol();
    // A message that can only come through slots needs a grant at once: its sender may wait for it while this PE sends.
    if (AnyNeedsGrant()) OpenGrants();
  }
  made_progress_ = false;
  do {
    made_progress_ |= AdvanceForAWhile();
    if (!local_copies_.empty()) made_progress_ |= RunLocalCopies();
  } while (HasReceived() && DeclareMoreMessages());
  if (HasReceived()) {
    if (trial_.has_value()) RecordTrial(*trial_);
    trial_.reset();
    // Before the sends are done: a peer may have no block to receive them, because another operation there holds it and
    // waits for a block here.
    GiveBackBlocks();
  }
  if (Finished()) return true;
  if (++polls_ >= kGrantDelayPolls) defer_grants_ = false;
  if (!defer_grants_ || AnyNeedsGrant()) OpenGrants();
  return false;
}

bool CollectiveOperation::DeclareMoreMessages() {
  if (!DeclareMore()) return false;
  if (!way_.has_value()) ChooseProtocol();
  return true;
}

void CollectiveOperation::ChooseProtocol() {
  if (bytes_ < kMinCrossMemoryReadBytes) return;
  size_t largest = 0;
  for (const Sending& sending : sends_) {
    if (sending.message.HasChoice(*context_)) largest = std::max(largest, sending.message.total());
  }
  ForEachReceiver([&](const MessageReceiver& message) {
    if (message.HasChoice(*context_)) largest = std::max(largest, message.total());
  });
  if (largest == 0) return;
  const auto [way, is_trial, is_measured] = context_->protocol_choice->Decide(op_, largest, key_);
  way_ = way;
  const int64_t now = is_trial ? shm::SteadyNanoseconds() : 0;
  if (is_measured) trial_ = Trial{way, largest, now};
  for (Sending& sending : sends_) {
    if (sending.message.HasChoice(*context_)) sending.message.Choose(way == ProtocolChoice::Way::kReads, now);
  }
  if (way == ProtocolChoice::Way::kReads) return;
  const auto expect = [&](auto& entry) {
    if (entry.message.HasChoice(*context_)) entry.message.ExpectSlots();
  };
  std::for_each(receives_.begin(), receives_.end(), expect);
  if (reducer_.has_value()) {
    std::for_each(reducer_->contributions().begin(), reducer_->contributions().end(), expect);
  }
}

// Only receivers measure, from when both ends were there: a sender through slots is done before its bytes have come.
void CollectiveOperation::RecordTrial(const Trial& trial) const {
  const int64_t now = shm::SteadyNanoseconds();
  const bool by_slots = trial.way == ProtocolChoice::Way::kSlots;
  int64_t begin = trial.began;
  bool any = false, is_pure = true;  // a peer may have chosen otherwise, and a read may have been refused
  ForEachReceiver([&](const MessageReceiver& message) {
    if (!message.HasChoice(*context_)) return;
    any = true;
    is_pure &= message.sender_began() != 0 && message.came_through_slots() == by_slots;
    begin = std::max(begin, message.sender_began());
  });
  if (any && is_pure) context_->protocol_choice->Record(op_, trial.bytes, trial.way, now - begin);
}

bool CollectiveOperation::RunLocalCopies() {
  for (const Sending& sending : sends_) {
    if (copies_overwrite_sends_ && sending.message.taken() < sending.message.total()) return false;
  }
  size_t written = reducer_.has_value() ? reducer_->total() : 0;
  for (const Receiving& receiving : receives_) written += receiving.message.total();
  for (const LocalCopy& copy : local_copies_) written += copy.bytes;
  const auto copy_bytes = written >= context_->llc_share ? shm::CopyStreaming : shm::Copy;
  const shm::ScopedCopyTimer timer;
  for (const LocalCopy& copy : local_copies_) {
    if (copy.from == nullptr) {
      memset(copy.to, 0, copy.bytes);
    } else {
      copy_bytes(copy.to, copy.from, copy.bytes);
    }
  }
  local_copies_.clear();
  return true;
}

bool CollectiveOperation::AdvanceOnce() {
  bool made_progress = false;
  size_t taken_by_all = SIZE_MAX;
  for (Sending& sending : sends_) {
    const bool whole = sending.source == Source::kOperands || !reducer_.has_value();
    const size_t ready = whole ? sending.message.total() : reducer_->reduced();
    made_progress |= sending.message.Advance(*context_, ready);
    taken_by_all = std::min(taken_by_all, sending.message.taken());
  }
  if (reducer_.has_value()) {
    const size_t limit = reduction_overwrites_sends_ ? std::min(taken_by_all, reducer_->total()) : reducer_->total();
    // To reduce into what a peer has yet to read, it must have been read as a copy: the peer may do the same.
    made_progress |= reducer_->Advance(*context_, limit, /*in_place=*/!reduction_overwrites_sends_);
  }
  for (Receiving& receiving : receives_) {
    const size_t limit =
        receiving.overwritten_send < 0 ? receiving.message.total() : sends_[receiving.overwritten_send].message.taken();
    made_progress |= receiving.message.Receive(*context_, limit);
  }
  return made_progress;
}

bool CollectiveOperation::HasReceived() const {
  return std::all_of(receives_.begin(), receives_.end(), [](const auto& entry) { return entry.message.done(); }) &&
         (!reducer_.has_value() || reducer_->done()) && local_copies_.empty();
}

bool CollectiveOperation::Finished() const {
  return HasReceived() &&
         std::all_of(sends_.begin(), sends_.end(), [](const auto& entry) { return entry.message.done(); });
}

void CollectiveOperation::GiveBackBlocks() {
  if (blocks_.empty()) return;
  for (Receiving& receiving : receives_) receiving.message.Close(*context_);
  if (reducer_.has_value()) {
    for (auto& contribution : reducer_->contributions()) contribution.message.Close(*context_);
  }
  for (const BlockSet& set : blocks_) ReturnBlocks(set);
  blocks_.clear();
  // An operation of this process that waits for blocks may sleep in the progress engine.
  shm::Ring(context_->heap->OwnBell());
}

void CollectiveOperation::ForEachReceiver(const std::function<void(const MessageReceiver&)>& visit) const {
  for (const Receiving& receiving : receives_) visit(receiving.message);
  if (!reducer_.has_value()) return;
  for (const auto& contribution : reducer_->contributions()) visit(contribution.message);
}

bool CollectiveOperation::AnyNeedsGrant() const {
  auto needs = [this](const auto& entry) { return entry.message.NeedsGrant(*context_); };
  return std::any_of(receives_.begin(), receives_.end(), needs) ||
         (reducer_.has_value() &&
          std::any_of(reducer_->contributions().begin(), reducer_->contributions().end(), needs));
}

void CollectiveOperation::OpenGrants() {
  size_t count = 0, largest = 0;
  ForEachReceiver([&](const MessageReceiver& message) {
    if (!message.MayNeedGrant()) return;
    ++count;
    largest = std::max(largest, message.total());
  });
  if (count == 0) return;
  // All or none: an operation that waits for blocks holds none that others may wait for.
  BlockSet set;
  short_of_blocks_ = !TakeBlocks(*context_, largest, count, &set);
  if (short_of_blocks_) return;
  size_t block = 0;
  auto grant = [&](MessageReceiver& message) {
    if (message.MayNeedGrant()) message.Grant(*context_, set.blocks[block++], set.geometry);
  };
  for (Receiving& receiving : receives_) grant(receiving.message);
  if (reducer_.has_value()) {
    for (auto& contribution : reducer_->contributions()) grant(contribution.message);
  }
  XLA_SHMEM_INVARIANT(block, ==, set.blocks.size());  // each block has one message, and each message its own
  blocks_.push_back(std::move(set));
}

std::string CollectiveOperation::Describe(const std::set<int>& pes) const {
  std::string text = NameExecution(op_, name_, bytes_, members_, context_->pe, key_);
  if (short_of_blocks_) text += "; no free slots for its peers to put into (raise XLA_SHMEM_HEAP_SIZE)";
  std::set<int> arrived, missing;
  for (const Sending& sending : sends_) {
    if (sending.message.ReceiverArrived()) arrived.insert(sending.message.receiver());
  }
  ForEachReceiver([&](const MessageReceiver& message) {
    if (message.SenderArrived()) arrived.insert(message.sender());
  });
  std::string counters;
  auto add = [&](int pe, const char* verb, size_t bytes, size_t total) {
    if (pes.count(pe) == 0) return;
    if (arrived.count(pe) == 0) {
      missing.insert(pe);
      return;
    }
    counters += "; PE " + std::to_string(pe) + " has " + verb + " " + std::to_string(bytes) + " of " +
                std::to_string(total) + " bytes";
  };
  for (const Sending& sending : sends_) {
    const MessageSender& message = sending.message;
    if (message.done() || !message.WaitsForReceiver(*context_)) continue;
    add(message.receiver(), "taken", message.taken(), message.total());
  }
  ForEachReceiver([&](const MessageReceiver& message) {
    if (message.WaitsForSender(*context_)) add(message.sender(), "sent", message.sent(), message.total());
  });
  return text + NameMissing(missing) + counters;
}

std::set<int> CollectiveOperation::WaitsFor() const {
  std::set<int> pes;
  for (const Sending& sending : sends_) {
    if (sending.message.WaitsForReceiver(*context_)) pes.insert(sending.message.receiver());
  }
  ForEachReceiver([&](const MessageReceiver& message) {
    if (message.WaitsForSender(*context_)) pes.insert(message.sender());
  });
  return pes;
}

void CollectiveOperation::Abandon() {
  for (Sending& sending : sends_) sending.message.Revoke(*context_);
}

}  // namespace xla_shmem
