// The accesses of a launch to memory that has a multicast address: by that address, and by the ordinary one.
//
// The two are aliases. The PTX ISA orders a store and another access of the same bytes through the other address only
// if a fence.proxy.alias lies between them ("Memory Consistency Model": proxy-preserved base causality order): of the
// thread of the first one behind it, or of the thread of the second one before it. Seen is what one launch does with
// memory of its own device and its peers', not what the launches of several devices do together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace ptx {

class Aliases {
 public:
  // An access of up to 16 bytes that do not cross a multiple of 16; `thread`: of the grid. False if a fence is missing.
  bool Access(const char* host, bool multicast, bool write, uint64_t thread);
  void Fence(uint64_t thread) { fences_[thread] = ++time_; }

 private:
  struct Last {
    uint64_t time = 0;  // 0: none
    uint64_t thread = 0;
  };
  // Of 16 bytes.
  struct Unit {
    Last of[2][2];  // by whether the access was at the multicast address, and a store
  };

  uint64_t time_ = 0;
  std::unordered_map<uint64_t, uint64_t> fences_;  // the time of the last one of each thread
  std::unordered_map<uintptr_t, Unit> units_;
};

}  // namespace ptx
