// Put, signal and wait through the table, in the manner of the OpenSHMEM unit tests.
#include "tests/doubles/nvshmem_host_api.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "tests/shm/test_heap.h"

namespace xla_shmem::nvshmem_double {
namespace {

const NvshmemApi& shmem = Api().shmem;

Status Wait(Stream& stream, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  return Synchronize(stream, std::chrono::steady_clock::now() + limit, std::chrono::microseconds(20));
}

// A job in this process, and the heap behind the table for as long as it lives.
struct Pes {
  explicit Pes(int n) : heap(testing::HeapOfOneProcess(n, 1 << 20)) { REQUIRE(SetHeap(heap.get())); }
  ~Pes() { SetHeap(nullptr); }
  void Run(const std::function<void(int pe)>& body) { testing::RunPes(heap->n_pes(), body); }
  std::unique_ptr<shm::Heap> heap;
};

template <typename T>
T* Malloc(size_t count) {
  return static_cast<T*>(shmem.malloc(count * sizeof(T)));
}

TEST_CASE("A thread answers for the PE it is bound to") {
  Pes pes(3);
  pes.Run([](int pe) {
    CHECK(shmem.my_pe() == pe);
    CHECK(shmem.n_pes() == 3);
  });
}

TEST_CASE("The n-th malloc of every PE is the same symmetric object") {
  Pes pes(4);
  std::vector<char*> first(4), second(4);
  pes.Run([&](int pe) {
    first[pe] = Malloc<char>(100);
    second[pe] = Malloc<char>(200);
  });
  for (int pe = 0; pe < 4; ++pe) {
    CHECK(first[pe] == shmem.ptr(first[0], pe));
    CHECK(second[pe] == shmem.ptr(second[0], pe));
    CHECK(second[pe] >= first[pe] + 100);
  }
}

TEST_CASE("More than the heap holds is a null pointer") {
  Pes pes(1);
  CHECK(shmem.malloc(2 << 20) == nullptr);
  CHECK(shmem.malloc(64) != nullptr);
}

TEST_CASE("ptr reaches the same object of every PE by plain loads and stores") {
  Pes pes(3);
  pes.Run([&](int pe) {
    int* mine = Malloc<int>(3);
    Stream stream;
    for (int to = 0; to < 3; ++to) static_cast<int*>(shmem.ptr(mine, to))[pe] = 10 * pe + to;
    BarrierOnStream(&stream);
    REQUIRE(Wait(stream).ok());
    for (int from = 0; from < 3; ++from) CHECK(mine[from] == 10 * from + pe);
    CHECK(shmem.ptr(mine, pe) == mine);
  });
}

TEST_CASE("Data that was put before a barrier is there after it") {
  Pes pes(4);
  pes.Run([&](int pe) {
    auto* box = Malloc<uint64_t>(4);
    Stream stream;
    for (uint64_t round = 1; round <= 200; ++round) {
      const uint64_t value = round * 100 + pe;
      for (int to = 0; to < 4; ++to) shmem.putmem_on_stream(box + pe, &value, sizeof(value), to, &stream);
      BarrierOnStream(&stream);
      REQUIRE(Wait(stream).ok());
      for (int from = 0; from < 4; ++from) {
        if (box[from] != round * 100 + from) FAIL("round " << round << " from " << from << ": " << box[from]);
      }
      BarrierOnStream(&stream);
      REQUIRE(Wait(stream).ok());
    }
  });
}

TEST_CASE("put_signal delivers the data before the signal") {
  Pes pes(2);
  pes.Run([&](int pe) {
    constexpr size_t kCount = 4096;
    auto* data = Malloc<uint32_t>(kCount);
    auto* signal = Malloc<uint64_t>(1);
    auto* acknowledged = Malloc<uint64_t>(1);
    Stream stream;
    for (uint32_t round = 1; round <= 300; ++round) {
      if (pe == 0) {
        const std::vector<uint32_t> source(kCount, round);
        shmem.putmem_signal_on_stream(data, source.data(), kCount * sizeof(uint32_t), signal, round, kSignalSet, 1,
                                      &stream);
        shmem.signal_wait_until_on_stream(acknowledged, kCmpEq, round, &stream);
        REQUIRE(Wait(stream).ok());
      } else {
        shmem.signal_wait_until_on_stream(signal, kCmpEq, round, &stream);
        REQUIRE(Wait(stream).ok());
        bool all = true;
        for (size_t i = 0; i < kCount; ++i) all &= data[i] == round;
        CHECK(all);
        shmem.signal_op_on_stream(acknowledged, round, kSignalSet, 0, &stream);
      }
    }
  });
}

TEST_CASE("Signals added by all PEs at once are all counted") {
  Pes pes(4);
  pes.Run([&](int) {
    auto* counter = Malloc<uint64_t>(1);
    Stream stream;
    for (int i = 0; i < 1000; ++i) shmem.signal_op_on_stream(counter, 1, kSignalAdd, 0, &stream);
    BarrierOnStream(&stream);
    REQUIRE(Wait(stream).ok());
    if (shmem.my_pe() == 0) CHECK(LoadSignal(counter) == 4000);
  });
}

TEST_CASE("A circular shift with put_signal and zero-byte puts leaves neighbours alone") {
  Pes pes(5);
  pes.Run([&](int pe) {
    auto* box = Malloc<int>(3);
    auto* signal = Malloc<uint64_t>(1);
    box[0] = box[2] = -1;
    Stream stream;
    BarrierOnStream(&stream);
    REQUIRE(Wait(stream).ok());
    const int right = (pe + 1) % 5;
    shmem.putmem_on_stream(box, &pe, 0, right, &stream);
    shmem.putmem_signal_on_stream(box + 1, &pe, sizeof(pe), signal, 1, kSignalAdd, right, &stream);
    shmem.putmem_signal_on_stream(box + 2, nullptr, 0, signal, 1, kSignalAdd, right, &stream);
    shmem.signal_wait_until_on_stream(signal, kCmpEq, 2, &stream);
    shmem.quiet_on_stream(&stream);
    REQUIRE(Wait(stream).ok());
    CHECK(box[0] == -1);
    CHECK(box[1] == (pe + 4) % 5);
    CHECK(box[2] == -1);
  });
}

TEST_CASE("Puts return before they are done, read their sources when they run, and one quiet completes them all") {
  Pes pes(2);
  pes.Run([&](int pe) {
    constexpr int kPuts = 100;
    auto* boxes = Malloc<int>(kPuts);
    auto* gate = Malloc<uint64_t>(1);
    Stream stream;
    if (pe == 0) {
      std::vector<int> sources(kPuts, -1);
      shmem.signal_wait_until_on_stream(gate, kCmpEq, 1, &stream);
      for (int i = 0; i < kPuts; ++i) shmem.putmem_on_stream(boxes + i, &sources[i], sizeof(int), 1, &stream);
      shmem.quiet_on_stream(&stream);
      CHECK_FALSE(Api().stream.query(&stream));
      for (int i = 0; i < kPuts; ++i) sources[i] = i * i;
      Stream opener;
      shmem.signal_op_on_stream(gate, 1, kSignalSet, 0, &opener);
      REQUIRE(Wait(opener).ok());
      REQUIRE(Wait(stream).ok());
    }
    BarrierOnStream(&stream);
    REQUIRE(Wait(stream).ok());
    bool all = true;
    for (int i = 0; i < kPuts; ++i) all &= boxes[i] == (pe == 1 ? i * i : 0);
    CHECK(all);
  });
}

TEST_CASE("A put to oneself is an ordinary put") {
  Pes pes(1);
  auto* box = Malloc<int>(1);
  Stream stream;
  const int value = 99;
  shmem.putmem_on_stream(box, &value, sizeof(value), 0, &stream);
  CHECK(*box == 99);
}

TEST_CASE("Hundreds of barriers back to back, on streams that are never drained between, keep all PEs in step") {
  Pes pes(3);
  std::atomic<int> entered{0};
  static std::atomic<int>* counter;
  counter = &entered;
  pes.Run([&](int) {
    Stream stream;
    for (int i = 0; i < 300; ++i) {
      Api().stream.launch_host_func(&stream, [](void*) { ++*counter; }, nullptr);
      BarrierOnStream(&stream);
    }
    REQUIRE(Wait(stream).ok());
    CHECK(entered == 900);
  });
}

TEST_CASE("A wait past its deadline says what it expected and what it saw") {
  Pes pes(1);
  auto* word = Malloc<uint64_t>(1);
  *word = 3;
  Stream stream;
  shmem.signal_wait_until_on_stream(word, kCmpGe, 7, &stream);
  CHECK(Wait(stream, std::chrono::milliseconds(50)).message() ==
        "a signal wait passed its deadline: expected 7, seen 3");
}

TEST_CASE("A wait in a job that has failed ends with the reason") {
  Pes pes(1);
  auto* word = Malloc<uint64_t>(1);
  Stream stream;
  pes.heap->Fail("the power failed");
  shmem.signal_wait_until_on_stream(word, kCmpNe, 0, &stream);
  CHECK(Wait(stream).message() == "the power failed");
}

TEST_CASE("Real processes reach each other through the table") {
  const shm::JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(3);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 3, 1 << 20);
    if (!SetHeap(heap.get())) return "the heap is too small";
    auto* box = Malloc<uint64_t>(1);
    auto* signal = Malloc<uint64_t>(1);
    Stream stream;
    const int right = (rank + 1) % 3;
    for (uint64_t round = 1; round <= 2000; ++round) {
      const uint64_t value = round * 10 + rank;
      shmem.putmem_signal_on_stream(box, &value, sizeof(value), signal, round, kSignalSet, right, &stream);
      shmem.signal_wait_until_on_stream(signal, kCmpGe, round, &stream);
      if (Status waited = Wait(stream); !waited.ok()) return waited.message();
      if (*box != round * 10 + (rank + 2) % 3) return "wrong data in round " + std::to_string(round);
      BarrierOnStream(&stream);
      if (Status waited = Wait(stream); !waited.ok()) return waited.message();
    }
    return "";
  });
  CHECK(group.Join() == std::vector<std::string>{"", "", ""});
}

}  // namespace
}  // namespace xla_shmem::nvshmem_double
