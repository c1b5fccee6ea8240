// Calls of the host that wait for devices, and what waits for them.
#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <thread>

#include "driver/death.h"
#include "driver/devices_fixture.h"

namespace emulator {
namespace {

const bool kIsImpatient = setenv("GPU_EMULATOR_BLOCKED_TIMEOUT", "2", 1) == 0;

// Waits until the word at %p is 1.
const char* const kWaits = "wait:\nld.relaxed.sys.global.b32 %x, [%p];\nsetp.ne.u32 %c, %x, 1;\n@%c bra wait;";
const char* const kSets = "mov.u32 %x, 1;\nst.relaxed.sys.global.b32 [%p], %x;";

// A kernel of device 0 waits for one of device 1. Before that is launched, the thread of device 0 makes calls. Both
// kernels are loaded before.
class Pair {
 public:
  explicit Pair(bool peers = true) {
    if (peers) gpus.Enable(0, 1);
    if (peers) gpus.Enable(1, 0);
    const Granule granule(0);
    shared_ = granule.MapFor({0, 1});
    gpus.Use(1);
    setting_ = DevicesFixture::Kernel(kSets);
    set_stream_ = DriverFixture::Stream();
    gpus.Use(0);
    waiting_ = DevicesFixture::Kernel(kWaits);
    wait_stream_ = DriverFixture::Stream();
    for (int i = 0; i < 2; ++i) Round([] {});  // loads them
  }

  // The calls come from a thread of their own, and the launch that the kernel waits for from this one, a little later.
  // `before` are calls of device 1 before its launch.
  void Round(const std::function<void()>& calls, const std::function<void()>& before = [] {}) {
    gpus.Use(0);
    REQUIRE(cuMemsetD32(shared_, 0, 1) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    REQUIRE(DevicesFixture::Launch(waiting_, wait_stream_, shared_) == CUDA_SUCCESS);
    std::thread caller([&] {
      cuCtxSetCurrent(gpus.contexts[0]);
      calls();
    });
    usleep(5000);
    gpus.Use(1);
    before();
    REQUIRE(DevicesFixture::Launch(setting_, set_stream_, shared_) == CUDA_SUCCESS);
    caller.join();
    gpus.Use(0);
    REQUIRE(cuStreamSynchronize(wait_stream_) == CUDA_SUCCESS);
  }

  DevicesFixture gpus;

 private:
  CUdeviceptr shared_ = 0;
  CUfunction setting_ = nullptr, waiting_ = nullptr;
  CUstream set_stream_ = nullptr, wait_stream_ = nullptr;
};

constexpr int kEnough = 24;  // rounds in which the seed makes a call wait

void AllocateAndFree() {
  CUdeviceptr memory = 0;
  if (cuMemAlloc(&memory, 4096) == CUDA_SUCCESS) cuMemFree(memory);
}

DYING_TEST_CASE("allocates between launches on peers") {
  Pair pair;
  for (int i = 0; i < kEnough; ++i) pair.Round(AllocateAndFree);
}
DYING_TEST_CASE("allocates pinned memory between launches on peers") {
  Pair pair;
  for (int i = 0; i < kEnough; ++i) {
    pair.Round([] {
      void* memory = nullptr;
      if (cuMemAllocHost(&memory, 4096) == CUDA_SUCCESS) cuMemFreeHost(memory);
    });
  }
}
DYING_TEST_CASE("maps memory for both devices between launches") {
  Pair pair(false);
  for (int i = 0; i < kEnough; ++i) {
    pair.Round([] { cuMemUnmap(Granule(0).MapFor({0, 1}), Granule::kBytes); });
  }
}
DYING_TEST_CASE("loads a module between launches on peers") {
  Pair pair;
  for (int i = 0; i < kEnough; ++i) pair.Round([] { DevicesFixture::Kernel(kSets); });
}
void Instantiate() {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec executable = nullptr;
  cuGraphCreate(&graph, 0);
  cuGraphAddEmptyNode(&node, graph, nullptr, 0);
  if (cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS) cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
}

DYING_TEST_CASE("instantiates a graph before a launch for which a peer waits") {
  Pair pair;
  for (int i = 0; i < kEnough; ++i) pair.Round([] {}, Instantiate);
}
DYING_TEST_CASE("instantiates a graph between launches on peers") {
  Pair pair;
  for (int i = 0; i < kEnough; ++i) pair.Round(Instantiate);
}
DYING_TEST_CASE("allocates between launches on devices that are no peers") {
  Pair pair(false);
  for (int i = 0; i < kEnough; ++i) pair.Round(AllocateAndFree);
}
TEST_CASE("Allocations wait for peers, and launches on peers wait for them") {
  CHECK(Dies("allocates between launches on peers", "cuMemAlloc_v2 waits for too long for the work of devices 0, 1"));
  CHECK(Dies("allocates between launches on peers", "of device 0 runs kernel k"));
  CHECK(Dies("allocates pinned memory between launches on peers", "for the work of devices 0, 1"));
  CHECK(Dies("loads a module between launches on peers", "cuModuleLoadData waits for too long"));
  CHECK(Dies("instantiates a graph before a launch for which a peer waits",
             "cuGraphInstantiate waits for too long for the work of devices 0, 1"));
  CHECK(LastWords("instantiates a graph between launches on peers").empty());
  CHECK(Dies("maps memory for both devices between launches", "for the work of devices 0, 1"));
  CHECK(LastWords("allocates between launches on devices that are no peers").empty());
}

TEST_CASE("Without blocking, nothing waits") {
  setenv("GPU_EMULATOR_BLOCKING", "0", 1);
  CHECK(LastWords("allocates between launches on peers").empty());
  unsetenv("GPU_EMULATOR_BLOCKING");
}

// A kernel of the current device waits for a word that a second kernel, on another stream, sets.
void LaunchTwice(bool loaded) {
  const DevicesFixture gpus;
  for (int i = 0; i < kEnough; ++i) {
    const CUdeviceptr memory = gpus.MemoryOf(0, 4096);
    cuMemsetD32(memory, 0, 1024);
    cuCtxSynchronize();
    const CUfunction sets = DevicesFixture::Kernel(kSets), waits = DevicesFixture::Kernel(kWaits);
    const CUstream first = DriverFixture::Stream(), second = DriverFixture::Stream();
    if (loaded) {
      DevicesFixture::Launch(sets, first, memory + 1024);
      DevicesFixture::Launch(waits, first, memory + 1024);
      cuCtxSynchronize();
    }
    DevicesFixture::Launch(waits, first, memory);
    DevicesFixture::Launch(sets, second, memory);
    cuCtxSynchronize();
  }
}
DYING_TEST_CASE("launches a kernel for the first time while another waits for it") { LaunchTwice(false); }
DYING_TEST_CASE("launches a kernel again while another waits for it") { LaunchTwice(true); }
TEST_CASE("The first launch of a kernel may wait for its device") {
  CHECK(Dies("launches a kernel for the first time while another waits for it",
             "the first launch of a kernel waits for too long for the work of device 0"));
  CHECK(LastWords("launches a kernel again while another waits for it").empty());
}

// The first stream of device 0 waits for a word, which an operation behind so many others, of another thread, writes.
void FillQueue(int operations) {
  const DevicesFixture gpus;
  uint32_t* const word = DriverFixture::Pinned(1);
  const CUstream held = DriverFixture::Stream(), other = DriverFixture::Stream();
  const CUdeviceptr memory = DriverFixture::Memory(64);
  DriverFixture::Hold(held, word);
  std::thread filler([&] {
    cuCtxSetCurrent(gpus.contexts[0]);
    for (int i = 0; i < operations; ++i) cuMemsetD32Async(memory, 1, 1, held);
  });
  usleep(200000);
  cuStreamWriteValue32(other, DriverFixture::Address(word), 1, 0);
  filler.join();
  cuStreamSynchronize(held);
}
DYING_TEST_CASE("fills a queue") { FillQueue(1100); }
DYING_TEST_CASE("leaves room in a queue") { FillQueue(1000); }
TEST_CASE("A launch into a full queue waits, and keeps other launches on its device waiting") {
  CHECK(Dies("fills a queue", "a launch waits for too long for room in its stream's queue"));
  CHECK(LastWords("leaves room in a queue").empty());
}

}  // namespace
}  // namespace emulator
