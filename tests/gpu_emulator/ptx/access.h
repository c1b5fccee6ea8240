// Where the memory behind an address is, and whether a kernel may access it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptx/decoder.h"
#include "ptx/warp.h"

namespace ptx {

// Sets host[lane] to the host's address of `bytes` bytes for every active lane, and for the other lanes to one of
// those. Otherwise sets warp.error: the address is misaligned, out of bounds or not accessible.
bool Resolve(Warp& warp, const Instruction& instruction, size_t bytes, bool write, char** host);

// The addresses behind the multicast address of a lane, as the host sees them. Otherwise sets warp.error and returns
// false: the address is misaligned or not one of multicast memory.
bool ResolveMulticast(Warp& warp, uint64_t address, size_t bytes, int lane, std::vector<char*>* members);

// Notes an access of `bytes` bytes of a lane at the multicast address or the ordinary one of memory. Sets warp.error if
// it lacks a fence.proxy.alias.
void NoteAlias(Warp& warp, int lane, const char* host, size_t bytes, bool multicast, bool write);

// The state space that the modifiers name, which are taken; generic if they name none.
Space TakeAddressSpace(Decoding& decoding);

// Whether the memory, which this launch may access, is another GPU's.
bool IsRemote(const Warp& warp, const char* host);

// Takes the modifiers of memory ordering and scope. Every access of this GPU's memory is atomic, of the widest scope,
// and at least as ordered as the strongest of them.
enum class Ordering : uint8_t { kNone, kAtomic, kSystemRelease };
Ordering TakeOrdering(Decoding& decoding);

// The stores to other GPUs that come before a release of the active lanes arrive.
void ReleaseStores(Warp& warp);
// In the block, and in the grid.
inline int ThreadOf(const Warp& warp, int lane) { return warp.number * kLanes + lane; }
uint64_t GridThreadOf(const Warp& warp, int lane);

}  // namespace ptx
