#include "driver/multicast.h"

#include <map>
#include <vector>

#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

struct Multicast {
  size_t bytes = 0;
  std::vector<CUdeviceptr> members;
};

// By first address. Requires Global().
std::map<uint64_t, Multicast>& Multicasts() {
  static auto* multicasts = new std::map<uint64_t, Multicast>;
  return *multicasts;
}

// The last that begins at or before `address`, if it holds it.
const std::pair<const uint64_t, Multicast>* FindMulticast(uint64_t address) {
  const auto after = Multicasts().upper_bound(address);
  if (after == Multicasts().begin()) return nullptr;
  const auto& found = *std::prev(after);
  return address - found.first < found.second.bytes ? &found : nullptr;
}

bool MembersOf(uint64_t address, size_t bytes, std::vector<uint64_t>* members) {
  const Lock lock(Global());
  const auto* const found = FindMulticast(address);
  if (found == nullptr || bytes > found->second.bytes - (address - found->first)) return false;
  members->clear();
  for (const CUdeviceptr member : found->second.members) members->push_back(member + (address - found->first));
  return true;
}

}  // namespace

bool IsMulticast(uint64_t address) { return FindMulticast(address) != nullptr; }

extern "C" CUresult gpu_emulator_multicast(CUdeviceptr* address, const CUdeviceptr* members, size_t count,
                                           size_t bytes) {
  const Lock lock(Global());
  // Without memory of its own, so every other access is refused.
  *address = NewAddresses(bytes, kGranularity);
  Multicasts()[*address] = {bytes, {members, members + count}};
  ptx::SetMulticastMembers(MembersOf);
  TRACE("multicast memory of %zu GPUs and %zu bytes: 0x%llx", count, bytes, *address);
  return CUDA_SUCCESS;
}

}  // namespace emulator
