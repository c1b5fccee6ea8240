// The part of a multicast object that its processes share: a file in memory.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "driver/generic_handles.h"

namespace emulator {

// Memory of one device that stands behind a part of the object.
struct Binding {
  FileOfProcess file;
  int gpu;          // of the machine
  uint64_t at;      // offset in the object
  uint64_t from;    // offset in the memory
  uint64_t bytes;   // 0: unbound
  uint64_t number;  // of all bindings of the object
  bool Covers(uint64_t offset, uint64_t count) const { return offset >= at && offset + count <= at + bytes; }
  bool Overlaps(uint64_t offset, uint64_t count) const {
    return bytes != 0 && offset < at + bytes && at < offset + count;
  }
};

struct Team {
  static constexpr unsigned kMostDevices = 64, kMostBindings = 4096;

  // Held for a few instructions, by any of the processes.
  class Hold {
   public:
    explicit Hold(Team& team) : team_(team) {
      while (team_.held.exchange(1) != 0) usleep(10);
    }
    ~Hold() { team_.held.store(0); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Team& team_;
  };

  std::atomic<uint32_t> held;
  uint32_t devices;  // that the object is for
  uint32_t handle_types;
  uint64_t bytes;
  std::atomic<uint32_t> added;
  int gpus[kMostDevices];
  uint32_t bindings_made;
  Binding bindings[kMostBindings];
};

}  // namespace emulator
