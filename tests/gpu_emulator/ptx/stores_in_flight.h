// Stores of a block to the memory of other GPUs, on their way.
//
// They arrive late and in any order, as the PTX ISA allows ("Memory Consistency Model"): a store of up to 8 bytes
// whole, a vector element by element. Stores of overlapping bytes keep their order. A release at system scope waits for
// the stores of its thread, and for those that a barrier of the block has put before it. All have arrived when the
// block ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ptx {

class Random;

class StoresInFlight {
 public:
  explicit StoresInFlight(Random* random) : random_(*random) {}

  // `thread`: of the block. `bytes`: 1, 2, 4 or 8.
  void Add(char* to, uint64_t value, size_t bytes, int thread);
  // A barrier: what was stored before it comes before each release behind it.
  void Publish();
  void Release(int thread);
  void DeliverSome();
  void DeliverAll();

 private:
  // So many wait at most. More would only take time.
  static constexpr size_t kMost = 64;
  struct Store {
    char* to;
    uint64_t value;
    uint8_t bytes;
    bool published;
    int thread;
  };
  template <typename Which>
  void DeliverEach(Which which);
  void DeliverAt(size_t index);

  Random& random_;
  std::vector<Store> stores_;  // from the oldest on
};

}  // namespace ptx
