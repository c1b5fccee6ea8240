// Windows of two ranks in one process: puts, signals, and what ends the process.
#include <cuda.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "driver/death.h"
#include "driver/devices_fixture.h"
#include "nccl/nccl_numbers.h"

namespace emulator::nccl {
class Communicator;
struct Window;
struct WaitDescriptor {
  int count, peer, index, context;
};

extern "C" {
int ncclCommInitAll(Communicator** communicators, int count, const int* devices);
int ncclGroupStart();
int ncclGroupEnd();
int ncclMemAlloc(void** memory, size_t bytes);
int ncclMemFree(void* memory);
int ncclCommWindowRegister(Communicator* communicator, void* buffer, size_t bytes, Window** window, int flags);
int ncclCommWindowDeregister(Communicator* communicator, Window* window);
int ncclPutSignal(const char* from, size_t count, int type, int peer, Window* window, size_t offset, int index,
                  int context, unsigned flags, Communicator* communicator, CUstream stream);
int ncclSignal(int peer, int index, int context, unsigned flags, Communicator* communicator, CUstream stream);
int ncclWaitSignal(int count, const WaitDescriptor* waits, Communicator* communicator, CUstream stream);
}

namespace {

constexpr size_t kBytes = 1 << 16;
constexpr int kSymmetric = 1;

// Two GPUs with a window each, whose bytes are 1 + the rank.
struct Pair {
  Pair() {
    setenv("GPU_EMULATOR_NCCL_TIMEOUT", "1", 1);
    const std::array<int, 2> devices{0, 1};
    REQUIRE(ncclCommInitAll(communicators.data(), 2, devices.data()) == kSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      gpus.Use(rank);
      streams[rank] = DriverFixture::Stream();
      REQUIRE(ncclMemAlloc(&memory[rank], kBytes) == kSuccess);
      REQUIRE(cuMemsetD8(Address(rank), static_cast<unsigned char>(rank + 1), kBytes) == CUDA_SUCCESS);
      REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    }
  }
  CUdeviceptr Address(int rank) const { return reinterpret_cast<CUdeviceptr>(memory[rank]); }
  void Register(size_t of_first = kBytes, size_t of_second = kBytes) {
    ncclGroupStart();
    ncclCommWindowRegister(communicators[0], memory[0], of_first, &windows[0], kSymmetric);
    ncclCommWindowRegister(communicators[1], memory[1], of_second, &windows[1], kSymmetric);
    REQUIRE(ncclGroupEnd() == kSuccess);
  }
  // Rank 0 puts the first bytes of its window to `offset` of rank 1's.
  int Put(size_t bytes, size_t offset, int index = 0) const {
    gpus.Use(0);
    return ncclPutSignal(static_cast<const char*>(memory[0]), bytes, kUint8, 1, windows[0], offset, index, 0, 0,
                         communicators[0], streams[0]);
  }
  int Wait(int count, int index = 0) const {
    gpus.Use(1);
    const WaitDescriptor wait{count, 0, index, 0};
    return ncclWaitSignal(1, &wait, communicators[1], streams[1]);
  }
  CUresult Sync(int rank) const {
    gpus.Use(rank);
    return cuStreamSynchronize(streams[rank]);
  }
  uint8_t ByteOf(int rank, size_t at) const {
    gpus.Use(rank);
    return DriverFixture::Read(Address(rank) + at, 1)[0];
  }

  const DevicesFixture gpus;
  std::array<Communicator*, 2> communicators{};
  std::array<CUstream, 2> streams{};
  std::array<void*, 2> memory{};
  std::array<Window*, 2> windows{};
};

TEST_CASE("What is put is there once its signal has come, at once or not before") {
  Pair pair;
  pair.Register();
  int early = 0;
  for (int turn = 0; turn < 6; ++turn) {
    const size_t offset = 4096 + 512 * static_cast<size_t>(turn);
    CHECK(pair.Put(512, offset) == kSuccess);
    REQUIRE(pair.Sync(0) == CUDA_SUCCESS);
    early += pair.ByteOf(1, offset) == 1 ? 1 : 0;
    CHECK(pair.Wait(1) == kSuccess);
    REQUIRE(pair.Sync(1) == CUDA_SUCCESS);
    CHECK(pair.ByteOf(1, offset) == 1);
    CHECK(pair.ByteOf(1, offset + 511) == 1);
    CHECK(pair.ByteOf(1, offset + 512) == 2);
  }
  CHECK(early == 3);
}

TEST_CASE("Signals count by their index, also those without bytes") {
  Pair pair;
  pair.Register();
  pair.gpus.Use(0);
  CHECK(ncclSignal(1, 3, 0, 0, pair.communicators[0], pair.streams[0]) == kSuccess);
  for (size_t turn = 0; turn < 4; ++turn) CHECK(pair.Put(8, 8 * turn) == kSuccess);
  CHECK(pair.Wait(4) == kSuccess);
  CHECK(pair.Wait(1, 3) == kSuccess);
  REQUIRE(pair.Sync(1) == CUDA_SUCCESS);
  for (size_t turn = 0; turn < 4; ++turn) CHECK(pair.ByteOf(1, 8 * turn) == 1);
  CHECK(ncclCommWindowDeregister(pair.communicators[0], pair.windows[0]) == kSuccess);
  pair.gpus.Use(0);
  CHECK(ncclMemFree(pair.memory[0]) == kSuccess);
}

DYING_TEST_CASE("waits for a signal that nobody sends") {
  Pair pair;
  pair.Register();
  pair.Put(8, 0, 1);
  pair.Wait(2, 1);
  pair.Sync(1);
}
DYING_TEST_CASE("registers windows of other sizes") {
  Pair pair;
  pair.Register(kBytes, kBytes / 2);
}
DYING_TEST_CASE("registers a window on one rank only") {
  Pair pair;
  ncclCommWindowRegister(pair.communicators[0], pair.memory[0], kBytes, &pair.windows[0], kSymmetric);
}
DYING_TEST_CASE("registers memory of cuMemAlloc") {
  Pair pair;
  pair.memory[0] = reinterpret_cast<void*>(pair.gpus.MemoryOf(0, kBytes));
  pair.Register();
}
DYING_TEST_CASE("registers a window that begins anywhere") {
  Pair pair;
  pair.memory[0] = static_cast<char*>(pair.memory[0]) + 256;
  pair.Register(kBytes / 2, kBytes / 2);
}
DYING_TEST_CASE("puts beyond the window") {
  Pair pair;
  pair.Register();
  pair.Put(512, kBytes - 511);
}
DYING_TEST_CASE("puts from memory in no window") {
  Pair pair;
  pair.Register();
  pair.memory[0] = reinterpret_cast<void*>(pair.gpus.MemoryOf(0, 512));
  pair.Put(512, 0);
}
DYING_TEST_CASE("puts into a window that is no more") {
  Pair pair;
  pair.Register();
  ncclCommWindowDeregister(pair.communicators[1], pair.windows[1]);
  for (int turn = 0; turn < 2; ++turn) pair.Put(8, 0);
  pair.Sync(0);
}
TEST_CASE("What NCCL leaves undefined of windows ends the process") {
  CHECK(Dies("waits for a signal that nobody sends", "rank 1 waits for 1 more signals of rank 0"));
  CHECK(Dies("registers windows of other sizes", "but that of rank "));
  CHECK(Dies("registers a window on one rank only", "rank 1 did not register its own in 1 s"));
  CHECK(Dies("registers memory of cuMemAlloc", "neither of ncclMemAlloc nor of cuMemCreate"));
  CHECK(Dies("registers a window that begins anywhere", "does not begin at a multiple of 4096"));
  CHECK(Dies("puts beyond the window", "beyond the peer's window"));
  CHECK(Dies("puts from memory in no window", "from memory that is in no window"));
  CHECK(Dies("puts into a window that is no more", "which is deregistered"));
}

}  // namespace
}  // namespace emulator::nccl
