// Calls of the host that wait for devices, and keep other threads from launching meanwhile.
//
// A kernel that waits for another device's launch must not depend on such a call. What NVIDIA says, and where:
//  * cuMemAlloc, cuMemFree and calls for pinned memory may wait for the work of their device (CUDA Programming Guide,
//    "Implicit Synchronization"), and of the devices with peer access to or from it (a maintainer in issue 744 of NCCL;
//    issue 48 for cuMemFreeHost);
//  * the first launch of a kernel that is loaded lazily may wait for the work of its context (CUDA Programming Guide,
//    "Lazy Loading");
//  * cuMemUnmap and cuMemSetAccess are synchronous for most uses (cuda.h);
//  * a launch waits while about 1,000 operations of its stream are pending (NVIDIA's forum, topic 68937).
// These are conservative assumptions:
//  * cuGraphInstantiate waits as an allocation does, which it needs (so XLA lets no thread launch before all have
//    instantiated: RendezvousAfterInitialization of gpu_executable.cc). It keeps launches on its own device alone:
//    XLA instantiates a program's graphs while other threads still launch the one before;
//  * loading a module waits as an allocation does, which it needs for its code and globals. cuBLAS loads its code with
//    the first product on a device;
//  * cuMemUnmap and cuMemSetAccess wait for all devices that have access or get it;
//  * while any of these waits, other threads' launches on the devices that it waits for wait too (issue 613 of NCCL
//    tells of calls for one GPU that wait for calls for another).
// The seed decides whether a call waits: every fourth one on average, and each launch into a full queue.
// GPU_EMULATOR_BLOCKING: 0: none does; 1: also where a process uses one device; 2: each does.
#pragma once

#include <cuda.h>

#include <set>

#include "driver/objects.h"

namespace emulator {

// The device and those with peer access to or from it.
std::set<int> WithPeers(int device);

// The part of a call that waits for the work that devices have now, if the seed says so. Not with Global(). Ends the
// process after GPU_EMULATOR_BLOCKED_TIMEOUT seconds (120), with what the devices run.
void MayWaitFor(const std::set<int>& devices, const char* call);

// The same for a device and its peers, of which only the device is kept from launches meanwhile.
void MayWaitForPeersOf(int device, const char* call);

// The first launch of a function loads it.
void MayLoad(CUfunction function);

// Before work is added to a stream: waits while a call holds the device, or while the stream's queue is full. Not with
// Global().
void AwaitRoom(CUstream stream);

}  // namespace emulator
