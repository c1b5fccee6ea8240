#include "xla_patch/thunks/gpu/kernel_operations.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "xla_patch/thunks/gpu/message_tag.h"

namespace xla_shmem::gpu {
namespace {

// Why the kernel refuses to go on; `pe`: of the other side.
std::string FaultText(Word fault, Word pe) {
  const std::string rows = "the rows for PE " + std::to_string(pe);
  switch (fault) {
    case kBeyondInput:
      return rows + " are not all in the input (input_offsets, send_sizes)";
    case kBeyondOutput:
      return rows + ", or from it, do not all fit in the output (output_offsets, send_sizes, recv_sizes)";
    default:
      return "PE " + std::to_string(pe) + " sends other numbers of rows than recv_sizes says";
  }
}

}  // namespace

uint64_t KernelOperations::NumberOf(const std::string& name, uint32_t tag, const std::vector<int>& pes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, added] = numbers_.try_emplace({name, tag, pes}, operations_.size() + 1);
  if (added) {
    Operation operation{name, {}};
    std::copy_if(pes.begin(), pes.end(), std::back_inserter(operation.peers), [&](int pe) { return pe != pe_; });
    operations_.push_back(std::move(operation));
  }
  return found->second;
}

LateTransfer KernelOperations::Describe(Word* words, uint64_t number) {
  Operation operation{"a collective", {}};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number >= 1 && number <= operations_.size()) operation = operations_[number - 1];
  }
  if (const Word fault = __atomic_load_n(words + kFault, __ATOMIC_ACQUIRE); fault != kNoFault) {
    const Word other = __atomic_load_n(words + kFaultPe, __ATOMIC_ACQUIRE);
    if (fault != kOtherCollective) {
      return {operation.name + " on PE " + std::to_string(pe_) + ": " + FaultText(fault, other)};
    }
    const Word tags = __atomic_load_n(words + PlaceOf(kOtherTag, static_cast<int>(other)), __ATOMIC_ACQUIRE);
    // The message may be the last one of the operation before.
    return {DescribeOtherCollective(TagOfWord(tags), pe_, static_cast<int>(other), NumberOfWord(tags))};
  }
  const auto text = [operation, pe = pe_](auto is_late) {
    std::string waits;
    for (const int peer : operation.peers) {
      if (is_late(peer)) waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(peer);
    }
    return operation.name + " on PE " + std::to_string(pe) + " has not finished" + waits;
  };
  const std::string waits_for = text([](int) { return true; });
  return {waits_for, [words, text, waits_for, peers = operation.peers] {
            const auto is_late = [words](int peer) {
              return __atomic_load_n(words + PlaceOf(kLate, peer), __ATOMIC_ACQUIRE) != 0;
            };
            __atomic_store_n(words + kOrder, kOrderReport, __ATOMIC_RELEASE);
            // Lanes look for orders every few hundred looks at their words.
            constexpr int kTries = 20;
            for (int tries = 0; tries < kTries; ++tries) {
              std::this_thread::sleep_for(std::chrono::milliseconds(25));
              if (std::any_of(peers.begin(), peers.end(), is_late)) break;
            }
            // Other lanes may wait for other peers.
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
            return std::any_of(peers.begin(), peers.end(), is_late) ? text(is_late) : waits_for;
          }};
}

}  // namespace xla_shmem::gpu
