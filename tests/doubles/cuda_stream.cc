#include "tests/doubles/cuda_stream.h"

#include <string.h>

#include <utility>

namespace xla_shmem::nvshmem_double {
namespace {

bool Satisfied(uint64_t seen, int compare, uint64_t value) {
  switch (compare) {
    case kCmpEq:
      return seen == value;
    case kCmpNe:
      return seen != value;
    case kCmpGt:
      return seen > value;
    case kCmpLe:
      return seen <= value;
    case kCmpLt:
      return seen < value;
    default:
      return seen >= value;
  }
}

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t) == 0; }

void Copy(const Command& command) {
  if (command.bytes == 0) return;
  // A copied signal: the copy engine writes a word at once, behind what it has copied before.
  if (command.bytes == sizeof(uint64_t) && IsAligned(command.source) && IsAligned(command.destination)) {
    const uint64_t word = __atomic_load_n(static_cast<const uint64_t*>(command.source), __ATOMIC_RELAXED);
    __atomic_store_n(static_cast<uint64_t*>(command.destination), word, __ATOMIC_RELEASE);
    return;
  }
  // It also reads whole words. They may be signal words, which others write.
  constexpr size_t kMostWords = 16;
  const size_t words = command.bytes / sizeof(uint64_t);
  if (command.bytes % sizeof(uint64_t) == 0 && words <= kMostWords && IsAligned(command.source)) {
    uint64_t loaded[kMostWords];
    for (size_t i = 0; i < words; ++i) {
      loaded[i] = __atomic_load_n(static_cast<const uint64_t*>(command.source) + i, __ATOMIC_RELAXED);
    }
    memcpy(command.destination, loaded, command.bytes);
    return;
  }
  memcpy(command.destination, command.source, command.bytes);
}

// False if the command is a wait that is not satisfied yet.
bool Run(const Command& command) {
  switch (command.kind) {
    case Command::Kind::kCopy:
      Copy(command);
      return true;
    case Command::Kind::kFill:
      if (command.bytes != 0) memset(command.destination, command.compare_or_op, command.bytes);
      return true;
    case Command::Kind::kSignal:
      // Release: whoever acquires the word sees every copy that ran before it on this stream.
      if (command.compare_or_op == kSignalAdd) {
        __atomic_fetch_add(command.word, command.value, __ATOMIC_ACQ_REL);
      } else {
        __atomic_store_n(command.word, command.value, __ATOMIC_RELEASE);
      }
      if (command.bell != nullptr) shm::Ring(*command.bell);
      return true;
    case Command::Kind::kWait:
      return Satisfied(LoadSignal(command.word), command.compare_or_op, command.value);
    case Command::Kind::kHostFunc:
      command.function(command.destination);
      return true;
    case Command::Kind::kTask:
      return command.poll(command.destination);
  }
  return true;
}

}  // namespace

void Stream::Append(const Command& command) {
  if (capturing_) {
    captured_.push_back(command);
    return;
  }
  if (eager_ && Idle() && Run(command)) return;
  commands_.push_back(command);
}

bool Stream::Step() {
  if (Idle() || !Run(commands_[next_])) return false;
  if (++next_ == commands_.size()) Abandon();
  return true;
}

bool Stream::Advance() {
  while (Step()) {
  }
  return Idle();
}

void Stream::Abandon() {
  commands_.clear();
  next_ = 0;
}

std::vector<Command> Stream::EndCapture() {
  capturing_ = false;
  return std::exchange(captured_, {});
}

void Stream::Launch(const std::vector<Command>& graph) {
  for (const Command& command : graph) Append(command);
}

}  // namespace xla_shmem::nvshmem_double
