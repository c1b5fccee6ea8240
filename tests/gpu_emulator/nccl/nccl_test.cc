// Several ranks of NCCL in one process.
#include <cuda.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "driver/death.h"
#include "driver/devices_fixture.h"
#include "nccl/nccl_numbers.h"

namespace emulator::nccl {
class Communicator;
struct UniqueId {
  char name[128];
};

extern "C" {
int ncclGetUniqueId(UniqueId* id);
int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId id, int rank);
int ncclCommInitAll(Communicator** communicators, int count, const int* devices);
int ncclCommCuDevice(Communicator* communicator, int* device);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const char* from, char* to, size_t count, int type, int reduction, Communicator* communicator,
                  CUstream stream);
}

namespace {

constexpr size_t kCount = 1000;

// A rank: a device, its stream and an array whose elements are all 1 + the device's number.
struct Rank {
  Rank(const DevicesFixture& gpus, int device) : device(device), memory(gpus.MemoryOf(device, kCount * 4)) {
    stream = DriverFixture::Stream();
    REQUIRE(cuMemsetD32(memory, static_cast<unsigned>(device) + 1, kCount) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  int Sum(size_t count = kCount) const {
    char* const buffer = reinterpret_cast<char*>(memory);
    return ncclAllReduce(buffer, buffer, count, kInt32, kSum, communicator, stream);
  }
  void CheckIs(const DevicesFixture& gpus, uint8_t value) const {
    gpus.Use(device);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(DriverFixture::Read(memory, 1)[0] == value);
    CHECK(DriverFixture::Read(memory + (kCount - 1) * 4, 1)[0] == value);
  }

  const int device;
  const CUdeviceptr memory;
  CUstream stream = nullptr;
  Communicator* communicator = nullptr;
};

// Runs one thread for each device, in which its context is current.
template <typename Work>
void InThreads(const DevicesFixture& gpus, int devices, Work work) {
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) {
    threads.emplace_back([&, device] {
      cuCtxSetCurrent(gpus.contexts[device]);
      work(device);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("Threads with a rank each sum the numbers of three devices") {
  const DevicesFixture gpus;
  std::array<Rank, 3> ranks{Rank(gpus, 0), Rank(gpus, 1), Rank(gpus, 2)};
  UniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == kSuccess);
  std::array<int, 3> results{-1, -1, -1};
  InThreads(gpus, 3, [&](int device) {
    Rank& rank = ranks[static_cast<size_t>(device)];
    ncclGroupStart();
    ncclCommInitRank(&rank.communicator, 3, id, device);
    ncclGroupEnd();
    for (int repetition = 0; repetition < 3; ++repetition) results[static_cast<size_t>(device)] = rank.Sum();
  });
  for (const Rank& rank : ranks) {
    CHECK(results[static_cast<size_t>(rank.device)] == kSuccess);
    rank.CheckIs(gpus, 6 * 3 * 3);
  }
}

TEST_CASE("One thread calls for several devices in a group") {
  const DevicesFixture gpus;
  std::vector<Rank> ranks;
  const std::array<int, 2> devices{3, 1};
  std::array<Communicator*, 2> communicators{};
  REQUIRE(ncclCommInitAll(communicators.data(), 2, devices.data()) == kSuccess);
  for (size_t i = 0; i < devices.size(); ++i) {
    ranks.emplace_back(gpus, devices[i]).communicator = communicators[i];
    int device = -1;
    REQUIRE(ncclCommCuDevice(communicators[i], &device) == kSuccess);
    CHECK(device == devices[i]);
  }
  gpus.Use(0);
  ncclGroupStart();
  for (const Rank& rank : ranks) CHECK(rank.Sum() == kSuccess);
  CHECK(ncclGroupEnd() == kSuccess);
  for (const Rank& rank : ranks) rank.CheckIs(gpus, 6);
}

std::vector<Rank> TwoRanks(const DevicesFixture& gpus) {
  std::array<Communicator*, 2> communicators{};
  const std::array<int, 2> devices{0, 1};
  ncclCommInitAll(communicators.data(), 2, devices.data());
  std::vector<Rank> ranks;
  for (const int device : devices) ranks.emplace_back(gpus, device).communicator = communicators[device];
  return ranks;
}

DYING_TEST_CASE("makes two ranks on one GPU") {
  const DevicesFixture gpus;
  std::array<Communicator*, 2> communicators{};
  const std::array<int, 2> devices{1, 1};
  ncclCommInitAll(communicators.data(), 2, devices.data());
}
DYING_TEST_CASE("calls on the stream of another GPU") {
  const DevicesFixture gpus;
  std::vector<Rank> ranks = TwoRanks(gpus);
  ranks[0].stream = ranks[1].stream;
  gpus.Use(0);
  ranks[0].Sum();
}
DYING_TEST_CASE("calls outside of a group with the context of another GPU") {
  const DevicesFixture gpus;
  const std::vector<Rank> ranks = TwoRanks(gpus);
  gpus.Use(1);
  ranks[0].Sum();
}
DYING_TEST_CASE("calls for one of two devices only") {
  setenv("GPU_EMULATOR_NCCL_TIMEOUT", "1", 1);
  const DevicesFixture gpus;
  const std::vector<Rank> ranks = TwoRanks(gpus);
  gpus.Use(0);
  ranks[0].Sum();
  cuStreamSynchronize(ranks[0].stream);
}
DYING_TEST_CASE("calls for other numbers of elements on two devices") {
  const DevicesFixture gpus;
  const std::vector<Rank> ranks = TwoRanks(gpus);
  ncclGroupStart();
  ranks[0].Sum();
  ranks[1].Sum(kCount - 1);
  ncclGroupEnd();
  cuStreamSynchronize(ranks[0].stream);
}
TEST_CASE("What NCCL leaves undefined between devices of a process ends it") {
  CHECK(Dies("makes two ranks on one GPU", " is on the GPU of rank "));
  CHECK(Dies("calls on the stream of another GPU", "on a stream of another GPU"));
  CHECK(Dies("calls outside of a group with the context of another GPU", "without the current context"));
  CHECK(Dies("calls for one of two devices only", "rank 0 waits for rank 1"));
  CHECK(Dies("calls for other numbers of elements on two devices", "ncclAllReduce of 999 elements"));
}

}  // namespace
}  // namespace emulator::nccl
