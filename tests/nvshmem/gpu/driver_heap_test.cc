// Symmetric memory of the driver: parts of several devices and of several processes, which are heaps of this process
// here, and what fails on the way.
#include "xla_patch/nvshmem/gpu/driver_heap.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "tests/nvshmem/gpu/memory_double.h"

namespace xla_shmem::gpu {
namespace {

using testing::kDoubleGranularity;

using Heap = std::unique_ptr<DriverHeap>;

Result<Heap> MakeHeap(std::vector<LocalPe> own, int n_pes, size_t bytes, MemorySharing sharing = MemorySharing::kNone,
                      bool multicast = false) {
  return DriverHeap::Create(&testing::CudaDouble::Driver(), {std::move(own), n_pes, bytes, sharing, multicast});
}

uint64_t* Words(void* memory) { return static_cast<uint64_t*>(memory); }

TEST_CASE("all devices of a process see one another's parts at one offset") {
  const size_t before = testing::LiveMemoryObjects();
  {
    Result<Heap> made = MakeHeap({{0, 4}, {1, 5}, {2, 7}}, 3, 100000);
    REQUIRE(made.ok());
    DriverHeap& heap = **made;
    CHECK(heap.part_bytes() == 2 * kDoubleGranularity);
    CHECK(heap.PeerAddress(heap.part(1), 0) == nullptr);  // not open
    REQUIRE(heap.Open().ok());
    for (int pe = 0; pe < 3; ++pe) REQUIRE(heap.Allocate(pe, 100) == heap.part(pe));
    for (int pe = 0; pe < 3; ++pe) CHECK(heap.Allocate(pe, 8) == heap.part(pe) + 256);
    for (int writer = 0; writer < 3; ++writer) {
      for (int pe = 0; pe < 3; ++pe) Words(heap.PeerAddress(heap.part(writer) + 256, pe))[0] = 10 * writer + pe;
      for (int pe = 0; pe < 3; ++pe) CHECK(Words(heap.part(pe) + 256)[0] == 10U * writer + pe);
    }
    CHECK(heap.PeerAddress(heap.part(2) + heap.part_bytes() - 1, 0) == heap.part(0) + heap.part_bytes() - 1);
    CHECK(heap.PeerAddress(heap.part(2) + heap.part_bytes(), 0) == nullptr);
    CHECK(heap.PeerAddress(heap.part(0) - 1, 0) == nullptr);
    CHECK(heap.PeerAddress(heap.part(0), 3) == nullptr);
    CHECK(heap.Allocate(0, heap.part_bytes()) == nullptr);
    CHECK(heap.Allocate(3, 8) == nullptr);
  }
  CHECK(testing::LiveMemoryObjects() == before);
}

TEST_CASE("an address belongs to the heap in which it lies") {
  Result<Heap> first = MakeHeap({{0, 0}, {1, 1}}, 2, 1);
  Result<Heap> second = MakeHeap({{0, 2}, {1, 3}}, 2, 1);
  REQUIRE((first.ok() && second.ok()));
  REQUIRE(((*first)->Open().ok() && (*second)->Open().ok()));
  CHECK((*first)->PeerAddress((*first)->part(0), 1) == (*first)->part(1));
  CHECK((*second)->PeerAddress((*second)->part(0), 1) == (*second)->part(1));
  CHECK((*second)->PeerAddress((*first)->part(0), 1) == nullptr);
}

// Two processes, with PEs 0 and 2, and with PE 1.
void CheckShared(DriverHeap& two, DriverHeap& one) {
  REQUIRE((two.Open().ok() && one.Open().ok()));
  for (int pe = 0; pe < 3; ++pe) {
    Words(two.part(pe))[1] = 100 + pe;
    CHECK(Words(one.part(pe))[1] == 100U + pe);
    Words(one.part(pe))[2] = 200 + pe;
    CHECK(Words(two.part(pe))[2] == 200U + pe);
  }
}

// What a process gives to another one, which closes its file.
Status Give(const DriverHeap& from, DriverHeap& to, int object) {
  const Result<std::string> handle = from.Export(object);
  if (!handle.ok()) return handle.status();
  const Status imported = to.Import(object, *handle);
  int file = -1;
  if (handle->size() == sizeof(file)) memcpy(&file, handle->data(), sizeof(file));
  if (file >= 0) close(file);
  return imported;
}

TEST_CASE("processes of a host map each other's memory by file descriptors") {
  const size_t before = testing::LiveMemoryObjects();
  {
    Result<Heap> two = MakeHeap({{0, 0}, {2, 1}}, 3, 1, MemorySharing::kFiles);
    Result<Heap> one = MakeHeap({{1, 0}}, 3, 1, MemorySharing::kFiles);
    REQUIRE((two.ok() && one.ok()));
    CHECK((*two)->Open().message() == "the heap has the memory of 2 of 3 PEs");
    CHECK(!(*two)->Export(1).ok());
    for (const int pe : {0, 2}) REQUIRE(Give(**two, **one, pe).ok());
    CHECK((*two)->Import(1, "short").message() == "the file of PE 1 has 5 bytes, not 4");
    REQUIRE(Give(**one, **two, 1).ok());
    CheckShared(**two, **one);
  }
  CHECK(testing::LiveMemoryObjects() == before);
}

TEST_CASE("hosts of a fabric map each other's memory by fabric handles") {
  Result<Heap> two = MakeHeap({{0, 0}, {2, 1}}, 3, 1, MemorySharing::kFabric);
  Result<Heap> one = MakeHeap({{1, 0}}, 3, 1, MemorySharing::kFabric);
  REQUIRE((two.ok() && one.ok()));
  for (const int pe : {0, 2}) REQUIRE(Give(**two, **one, pe).ok());
  CHECK((*two)->Import(1, "short").message() == "the fabric handle of PE 1 has 5 bytes, not 64");
  REQUIRE(Give(**one, **two, 1).ok());
  CheckShared(**two, **one);
}

// Undoes what a test has the driver refuse.
struct KeptRefusals {
  ~KeptRefusals() { testing::Refused() = {}; }
};

TEST_CASE("a heap that cannot be made names device and call, and leaves nothing") {
  const KeptRefusals kept;
  const size_t before = testing::LiveMemoryObjects();
  testing::Refused().create_on = 6;
  const Result<Heap> made = MakeHeap({{0, 5}, {1, 6}}, 2, 1);
  CHECK(made.message().find("cuMemCreate of 65536 bytes of symmetric memory on device 6 failed with") == 0);
  CHECK(testing::LiveMemoryObjects() == before);
}

TEST_CASE("a GPU that may not use the others' memory is an error, and all is given back") {
  const KeptRefusals kept;
  const size_t before = testing::LiveMemoryObjects();
  {
    Result<Heap> made = MakeHeap({{0, 5}, {1, 6}}, 2, 1);
    REQUIRE(made.ok());
    testing::Refused().access_of = 6;
    CHECK((*made)->Open().message().find("cuMemSetAccess to the memory of PE 0") == 0);
    CHECK((*made)->PeerAddress((*made)->part(0), 1) == nullptr);
  }
  CHECK(testing::LiveMemoryObjects() == before);
}

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST_CASE("a process gives the memory of its PEs and its multicast object, or leaves no file open") {
  const KeptRefusals kept;
  CHECK((*MakeHeap({{0, 0}, {1, 1}}, 2, 1))->ExportAll()->empty());
  Result<Heap> fabric = MakeHeap({{2, 1}, {0, 0}}, 3, 1, MemorySharing::kFabric);
  REQUIRE(fabric.ok());
  CHECK(*(*fabric)->ExportAll() == SharedMemory{{2, *(*fabric)->Export(2)}, {0, *(*fabric)->Export(0)}});
  Result<Heap> files = MakeHeap({{2, 1}, {0, 0}}, 3, 1, MemorySharing::kFiles, true);
  REQUIRE(files.ok());
  REQUIRE((*files)->MakeMulticast().ok());
  const size_t before = OpenFiles();
  const Result<SharedMemory> shared = (*files)->ExportAll();
  REQUIRE((shared.ok() && shared->size() == 3));
  CHECK(((*shared)[0].first == 2 && (*shared)[1].first == 0 && (*shared)[2].first == kMulticastObject));
  CHECK(OpenFiles() == before + 3);
  for (const auto& [object, handle] : *shared) {
    int file = -1;
    memcpy(&file, handle.data(), sizeof(file));
    CHECK(close(file) == 0);
  }
  testing::Refused().exports_after = 2;
  CHECK((*files)->ExportAll().message().find("cuMemExportToShareableHandle of the multicast object failed") == 0);
  CHECK(OpenFiles() == before);
}

TEST_CASE("memory that cannot be imported names its PE") {
  const KeptRefusals kept;
  Result<Heap> made = MakeHeap({{0, 0}}, 2, 1, MemorySharing::kFiles);
  REQUIRE(made.ok());
  testing::Refused().import = true;
  CHECK((*made)->Import(1, std::string(4, '\0')).message().find("cuMemImportFromShareableHandle of PE 1 failed") == 0);
}

TEST_CASE("a multicast object has one address for an offset in all parts, from all processes") {
  const size_t before = testing::LiveMemoryObjects();
  for (const MemorySharing sharing : {MemorySharing::kFiles, MemorySharing::kFabric}) {
    Result<Heap> two = MakeHeap({{0, 0}, {2, 1}}, 3, 1, sharing, true);
    Result<Heap> one = MakeHeap({{1, 5}}, 3, 1, sharing, true);
    REQUIRE((two.ok() && one.ok()));
    CHECK((*two)->part_bytes() == 2 * kDoubleGranularity);  // of multicast objects
    for (const int pe : {0, 2}) REQUIRE(Give(**two, **one, pe).ok());
    REQUIRE(Give(**one, **two, 1).ok());
    REQUIRE(((*two)->Open().ok() && (*one)->Open().ok()));
    CHECK((*one)->Export(kMulticastObject).message() == "the multicast object has no memory in this process");
    REQUIRE((*two)->MakeMulticast().ok());
    REQUIRE(Give(**two, **one, kMulticastObject).ok());
    REQUIRE((*two)->AddToMulticast().ok());
    CHECK((*two)->OpenMulticast().message().find("cuMulticastBindMem of the memory of PE 0 failed with") == 0);
    REQUIRE((*one)->AddToMulticast().ok());
    CHECK((*two)->MulticastAddress((*two)->part(0)) == nullptr);
    REQUIRE(((*two)->OpenMulticast().ok() && (*one)->OpenMulticast().ok()));
    CHECK(testing::BoundToMulticast() == 3);
    for (DriverHeap* const heap : {two->get(), one->get()}) {
      auto* const first = static_cast<char*>(heap->MulticastAddress(heap->part(0)));
      REQUIRE(first != nullptr);
      for (int pe = 0; pe < 3; ++pe) {
        CHECK(heap->MulticastAddress(heap->part(pe) + 300) == first + 300);
        CHECK((first + 300 < heap->part(pe) || first >= heap->part(pe) + heap->part_bytes()));
      }
    }
    CHECK((*one)->MulticastAddress((*one)->part(0)) != (*two)->MulticastAddress((*two)->part(0)));
  }
  CHECK(testing::LiveMemoryObjects() == before);
  CHECK(testing::BoundToMulticast() == 0);
}

TEST_CASE("without multicast memory a heap is as good, and says what the driver refused") {
  const KeptRefusals kept;
  testing::Refused().multicast = true;
  Result<Heap> made = MakeHeap({{0, 0}, {1, 1}}, 2, 1, MemorySharing::kNone, true);
  REQUIRE(made.ok());
  CHECK((*made)->MakeMulticast().message().find("cuMulticastCreate for 2 GPUs failed with") == 0);
  CHECK(!(*made)->AddToMulticast().ok());
  REQUIRE((*made)->Open().ok());
  CHECK((*made)->MulticastAddress((*made)->part(1)) == nullptr);
  testing::Refused() = {};
  testing::Refused().add = 1;
  REQUIRE((*made)->MakeMulticast().ok());
  CHECK((*made)->AddToMulticast().message().find("cuMulticastAddDevice of device 1 failed with") == 0);
}

}  // namespace
}  // namespace xla_shmem::gpu
