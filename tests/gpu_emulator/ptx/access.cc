#include "ptx/access.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "driver/device_view.h"
#include "ptx/aliases.h"
#include "ptx/kernel.h"
#include "ptx/stores_in_flight.h"

namespace ptx {
namespace {

std::atomic<AccessCheck> access_check{nullptr};
std::atomic<uint64_t> forgotten{0};
std::atomic<MulticastMembers> multicast_members{nullptr};

bool FindMembers(uint64_t address, size_t bytes, std::vector<uint64_t>* members) {
  const MulticastMembers find = multicast_members.load(std::memory_order_acquire);
  return find != nullptr && find(address, bytes, members);
}

bool Contains(const AccessibleRange& range, uint64_t first, uint64_t end) {
  return range.begin <= first && end <= range.end;
}

// Variables of the kernel's module.
bool InGlobals(const Kernel& kernel, uint64_t first, uint64_t end, AccessibleRange* range) {
  for (const auto& [name, global] : kernel.module->globals) {
    const auto begin = reinterpret_cast<uint64_t>(global.memory);
    *range = {begin, begin + global.bytes};
    if (Contains(*range, first, end)) return true;
  }
  return false;
}

// Whether the kernel may access [first, end), by the ranges that it was allowed before or by the driver.
bool IsAllowed(const Grid& grid, uint64_t first, uint64_t end, bool write) {
  KnownRanges& known = *grid.known;
  const uint64_t generation = forgotten.load(std::memory_order_acquire);
  if (known.generation != generation) known = KnownRanges{generation, {}, 0, false};
  for (const AccessibleRange& range : known.ranges[write]) {
    if (Contains(range, first, end)) return true;
  }
  const AccessCheck check = access_check.load(std::memory_order_acquire);
  if (check == nullptr) return true;
  AccessibleRange range;
  if (!InGlobals(*grid.kernel, first, end, &range) && !check(first, end - first, write, &range)) return false;
  known.ranges[write][known.next++ % KnownRanges::kSize] = range;
  known.any_remote |= range.remote;
  return true;
}

const char* NameOf(Space space) {
  switch (space) {
    case Space::kShared:
      return "shared memory";
    case Space::kLocal:
      return "local memory";
    case Space::kParameter:
      return "the parameters";
    default:
      return "device memory";
  }
}

bool Refuse(Warp& warp, const char* what, Space space, uint64_t address, size_t bytes, bool write, int lane) {
  char text[200];
  snprintf(text, sizeof(text), "%s of %zu bytes at 0x%" PRIx64 " in %s %s (lane %d)", write ? "a write" : "a read",
           bytes, address, NameOf(space), what, lane);
  Fail(warp, text);
  return false;
}

struct Window {
  char* begin;
  size_t bytes;
};

Window WindowOf(const Warp& warp, Space space, int lane) {
  if (space == Space::kShared) return {warp.block->shared, warp.block->shared_bytes};
  if (space == Space::kLocal) return {warp.local + static_cast<size_t>(lane) * warp.local_bytes, warp.local_bytes};
  return {warp.grid->arguments, warp.grid->argument_bytes};
}

// Addresses that count from 0.
bool ResolveWindow(Warp& warp, const Instruction& i, size_t bytes, bool write, const uint64_t* addresses, char** host) {
  bool inside = true;
  ForActiveLanes(warp, [&](int lane) {
    const Window window = WindowOf(warp, i.space, lane);
    if (inside && (addresses[lane] > window.bytes || bytes > window.bytes - addresses[lane])) {
      inside = Refuse(warp, "is out of bounds", i.space, addresses[lane], bytes, write, lane);
    }
    host[lane] = window.begin + addresses[lane];
  });
  if (i.space != Space::kParameter || !write) return inside;
  return Refuse(warp, "is not allowed", i.space, 0, bytes, write, 0);
}

// True if a generic address lies in a window.
bool InWindow(const Warp& warp, uint64_t address, size_t bytes, bool write, int lane) {
  for (const Space space : {Space::kShared, Space::kLocal, Space::kParameter}) {
    if (write && space == Space::kParameter) continue;
    const Window window = WindowOf(warp, space, lane);
    const auto begin = reinterpret_cast<uint64_t>(window.begin);
    if (begin <= address && address + bytes <= begin + window.bytes) return true;
  }
  return false;
}

bool CheckAddresses(Warp& warp, const Instruction& i, size_t bytes, bool write, const uint64_t* addresses) {
  const Grid& grid = *warp.grid;
  uint64_t lowest = addresses[0], highest = addresses[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    lowest = addresses[lane] < lowest ? addresses[lane] : lowest;
    highest = addresses[lane] > highest ? addresses[lane] : highest;
  }
  if (highest - lowest < (1 << 16) && i.space == Space::kGlobal && IsAllowed(grid, lowest, highest + bytes, write))
    return true;
  bool allowed = true;
  ForActiveLanes(warp, [&](int lane) {
    const uint64_t address = addresses[lane];
    if (!allowed || (i.space == Space::kGeneric && InWindow(warp, address, bytes, write, lane))) return;
    if (IsAllowed(grid, address, address + bytes, write)) return;
    std::vector<uint64_t> members;
    allowed = Refuse(warp,
                     FindMembers(address, 1, &members) ? "is at a multicast address, which only multimem may use"
                                                       : "is not in an allocation that the device can access",
                     i.space, address, bytes, write, lane);
  });
  return allowed;
}

}  // namespace

void SetAccessCheck(AccessCheck check) {
  access_check.store(check, std::memory_order_release);
  ForgetAccessibleRanges();
}

void ForgetAccessibleRanges() { forgotten.fetch_add(1, std::memory_order_acq_rel); }

bool Resolve(Warp& warp, const Instruction& i, size_t bytes, bool write, char** host) {
  uint64_t addresses[kLanes];
  const auto offset = static_cast<uint64_t>(i.number);
  if (i.wide_address) {
    const uint64_t* const base = Lane<uint64_t>(warp, i.a);
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + offset;
  } else {
    const uint32_t* const base = Lane<uint32_t>(warp, i.a);
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + offset;
  }
  const int first = __builtin_ctz(warp.active);
  if (warp.active != kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((warp.active >> lane & 1) == 0) addresses[lane] = addresses[first];
    }
  }
  uint64_t low_bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) low_bits |= addresses[lane];
  if ((low_bits & (bytes - 1)) != 0) {
    int lane = first;
    while ((addresses[lane] & (bytes - 1)) == 0) ++lane;
    return Refuse(warp, "is misaligned", i.space, addresses[lane], bytes, write, lane);
  }
  if (i.space != Space::kGlobal && i.space != Space::kGeneric) {
    if (!ResolveWindow(warp, i, bytes, write, addresses, host)) return false;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((warp.active >> lane & 1) == 0) host[lane] = host[first];
    }
    return true;
  }
  for (int lane = 0; lane < kLanes; ++lane) host[lane] = emulator::DeviceView<char>(addresses[lane]);
  if (!CheckAddresses(warp, i, bytes, write, addresses)) return false;
  if (warp.grid->aliases == nullptr) return true;
  ForActiveLanes(warp, [&](int lane) { NoteAlias(warp, lane, host[lane], bytes, /*multicast=*/false, write); });
  return warp.error.empty();
}

uint64_t GridThreadOf(const Warp& warp, int lane) {
  const Grid& grid = *warp.grid;
  const Dim& at = warp.block->index;
  const uint64_t block = (uint64_t{at.z} * grid.blocks.y + at.y) * grid.blocks.x + at.x;
  return block * grid.threads.x * grid.threads.y * grid.threads.z + ThreadOf(warp, lane);
}

void NoteAlias(Warp& warp, int lane, const char* host, size_t bytes, bool multicast, bool write) {
  if (warp.grid->aliases->Access(host, multicast, write, GridThreadOf(warp, lane)) || !warp.error.empty()) return;
  Refuse(warp, "has no fence.proxy.alias between it and one through an alias", Space::kGlobal,
         reinterpret_cast<uint64_t>(host), bytes, write, lane);
}

bool IsRemote(const Warp& warp, const char* host) {
  const KnownRanges& known = *warp.grid->known;
  if (!known.any_remote) return false;
  for (const bool write : {false, true}) {
    for (const AccessibleRange& range : known.ranges[write]) {
      if (!range.remote || host < emulator::DeviceView<char>(range.begin)) continue;
      if (host < emulator::DeviceView<char>(range.end)) return true;
    }
  }
  return false;
}

void SetMulticastMembers(MulticastMembers members) { multicast_members.store(members, std::memory_order_release); }

bool ResolveMulticast(Warp& warp, uint64_t address, size_t bytes, int lane, std::vector<char*>* members) {
  std::vector<uint64_t> addresses;
  if (address % bytes != 0) return Refuse(warp, "is misaligned", Space::kGlobal, address, bytes, false, lane);
  if (!FindMembers(address, bytes, &addresses)) {
    return Refuse(warp, "is not at a multicast address", Space::kGlobal, address, bytes, false, lane);
  }
  members->clear();
  for (const uint64_t member : addresses) members->push_back(emulator::DeviceView<char>(member));
  return true;
}

Space TakeAddressSpace(Decoding& decoding) {
  if (decoding.TakeOneOf({"global", "const"}) >= 0) return Space::kGlobal;
  if (decoding.TakeOneOf({"shared", "shared::cta"}) >= 0) return Space::kShared;
  if (decoding.Take("local")) return Space::kLocal;
  if (decoding.TakeOneOf({"param", "param::entry", "param::func"}) >= 0) return Space::kParameter;
  return Space::kGeneric;
}

Ordering TakeOrdering(Decoding& decoding) {
  decoding.Take("weak");
  const int ordered = decoding.TakeOneOf({"relaxed", "acquire", "release", "acq_rel", "volatile"});
  const bool system = decoding.TakeOneOf({"cta", "cluster", "gpu", "sys"}) == 3;
  const bool releases = ordered == 2 || ordered == 3;
  return ordered < 0 ? Ordering::kNone : releases && system ? Ordering::kSystemRelease : Ordering::kAtomic;
}

void ReleaseStores(Warp& warp) {
  ForActiveLanes(warp, [&](int lane) { warp.block->in_flight->Release(ThreadOf(warp, lane)); });
}

}  // namespace ptx
