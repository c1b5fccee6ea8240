// The device code, compiled for the CPU. A block is a thread of the host, with one thread of the device. Its stores
// without order arrive late and in any order.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/multicast.h"
#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/narrow_floats.h"

namespace xla_shmem::gpu {
namespace {

struct Index {
  unsigned x;
};
thread_local Index gridDim, blockDim, blockIdx, threadIdx;  // as CUDA names them

// What the compiler must not move across.
void BarrierOnHost() { asm volatile("" ::: "memory"); }

}  // namespace
}  // namespace xla_shmem::gpu

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(threads, blocks)
#define __syncthreads BarrierOnHost
#include "xla_patch/nvshmem/gpu/kernels/copies.cuh"

namespace xla_shmem::gpu {
namespace {

// The stores of a block that have not arrived. Those to one word keep their order.
class StoresInFlight {
 public:
  void Add(Word* word, Word value) {
    stores_.push_back({word, value});
    constexpr size_t kMost = 64;  // more would only take time
    if (stores_.size() > kMost || random_() % 4 == 0) DeliverOne();
  }
  void DeliverOne() {
    if (stores_.empty()) return;
    const Word* const word = stores_[random_() % stores_.size()].word;
    const auto first =
        std::find_if(stores_.begin(), stores_.end(), [&](const Store& store) { return store.word == word; });
    __atomic_store_n(first->word, first->value, __ATOMIC_RELAXED);
    stores_.erase(first);
  }
  void DeliverAll() {
    while (!stores_.empty()) DeliverOne();
  }

 private:
  struct Store {
    Word* word;
    Word value;
  };
  std::vector<Store> stores_;
  std::minstd_rand random_{static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id())) | 1};
};
thread_local StoresInFlight in_flight;

// The functions of platform.cuh.
Word Fresh(Word value) { return value; }

// Each word of a pair arrives by itself.
void StorePairRelaxed(Word* words, Word first, Word second) {
  in_flight.Add(words, first);
  in_flight.Add(words + 1, second);
}
void StoreRelease(Word* word, Word value) {
  in_flight.DeliverAll();
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
Word LoadAcquire(const Word* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
Word LoadRelaxed(const Word* word) {
  in_flight.DeliverOne();
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
WordPair LoadPairRelaxed(const Word* words) {
  const Word second = LoadRelaxed(words + 1);
  return {LoadRelaxed(words), second};
}
// The last block changes what the others have read. A GPU's block has those values before it counts, because it has
// used them; here only an order says so.
Word CountBlock(Word* word) { return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL); }

// Longer each time: a hundred blocks that wait must leave two cores to the one that others wait for.
void Pause() {
  thread_local unsigned pauses = 0;
  usleep(std::min(2000u, 50 + 25 * pauses++));
}

struct DeviceTrap {};
[[noreturn]] void Trap() { throw DeviceTrap(); }

// Instructions of 16 bytes at multicast addresses.
void MultimemLoad(const char* address, Elements elements, int kind, void* loaded);
void MultimemStore(char* address, Pack16 pack) {
  for (char* const member : nvshmem_double::MemberAddresses(address, kPack)) {
    StorePairRelaxed(reinterpret_cast<Word*>(member), pack.low, pack.high);
  }
  nvshmem_double::CountMulticast(/*store=*/true);
}
void FenceAliases() {}

}  // namespace
}  // namespace xla_shmem::gpu

#define XLA_SHMEM_LOAD(registers, operation, elements, kind) MultimemLoad(address, elements, kind, &loaded)
#include "xla_patch/nvshmem/gpu/kernels/kernels.cu"

namespace xla_shmem::gpu {
namespace {

// Begins with another PE each time: in which order the switch adds is not known.
void MultimemLoad(const char* address, Elements elements, int kind, void* loaded) {
  thread_local size_t first = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::vector<char*> members = nvshmem_double::MemberAddresses(address, kPack);
  std::vector<const char*> inputs;
  inputs.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) inputs.push_back(members[(first + i) % members.size()]);
  ++first;
  alignas(kPack) char reduced[kPack];
  Reduce(elements, kind, inputs.data(), static_cast<int>(inputs.size()), kPack, reduced);
  memcpy(loaded, reduced, kPack);
  nvshmem_double::CountMulticast(/*store=*/false);
}

}  // namespace
}  // namespace xla_shmem::gpu

namespace xla_shmem::testing {
namespace {

template <typename Arguments, void (*kKernel)(Arguments)>
bool Run(const void* argument, unsigned block, unsigned blocks) {
  Arguments arguments;
  memcpy(&arguments, argument, sizeof(arguments));
  gpu::gridDim.x = blocks;
  gpu::blockDim.x = 1;
  gpu::blockIdx.x = block;
  gpu::threadIdx.x = 0;
  bool ended = true;
  try {
    kKernel(arguments);
  } catch (const gpu::DeviceTrap&) {
    ended = false;
  }
  gpu::in_flight.DeliverAll();
  return ended;
}

bool RunTrap(const void*, unsigned, unsigned) { return false; }

}  // namespace

const Kernel* FindKernel(const char* name) {
  static const Kernel move{Run<gpu::CollectiveArguments, gpu::move>, sizeof(gpu::CollectiveArguments), true};
  static const Kernel reduce{Run<gpu::CollectiveArguments, gpu::reduce>, sizeof(gpu::CollectiveArguments), true};
  static const Kernel moved{Run<gpu::CollectiveArguments, gpu::move_packets>, sizeof(gpu::CollectiveArguments), true};
  static const Kernel reduced{Run<gpu::CollectiveArguments, gpu::reduce_packets>, sizeof(gpu::CollectiveArguments),
                              true};
  static const Kernel switched{Run<gpu::CollectiveArguments, gpu::switch_reduction>, sizeof(gpu::CollectiveArguments),
                               true};
  static const Kernel gathered{Run<gpu::CollectiveArguments, gpu::switch_gather>, sizeof(gpu::CollectiveArguments),
                               true};
  static const Kernel ragged{Run<gpu::RaggedArguments, gpu::ragged_all_to_all>, sizeof(gpu::RaggedArguments), true};
  static const Kernel sent{Run<gpu::SplitArguments, gpu::send_message>, sizeof(gpu::SplitArguments), true};
  static const Kernel received{Run<gpu::SplitArguments, gpu::receive_message>, sizeof(gpu::SplitArguments), true};
  static const Kernel trap{RunTrap, 0, false};
  const std::string wanted = name;
  return wanted == "move"                ? &move
         : wanted == "reduce"            ? &reduce
         : wanted == "move_packets"      ? &moved
         : wanted == "reduce_packets"    ? &reduced
         : wanted == "switch_reduction"  ? &switched
         : wanted == "switch_gather"     ? &gathered
         : wanted == "ragged_all_to_all" ? &ragged
         : wanted == "send_message"      ? &sent
         : wanted == "receive_message"   ? &received
         : wanted == "trap"              ? &trap
                                         : nullptr;
}

void ReduceByKernel(const gpu::KernelReduction& reduction, const char* const* inputs, int count, size_t bytes,
                    char* output) {
  gpu::blockDim.x = 1;
  gpu::threadIdx.x = 0;
  gpu::Reduce(reduction.elements, static_cast<int>(reduction.kind), inputs, count, bytes, output);
}

SerialSteps CountSerialSteps(int members, unsigned threads) {
  gpu::ExchangeArguments arguments{};
  arguments.members = members;
  const gpu::Lane lane(arguments, nullptr);
  gpu::blockDim.x = threads;
  SerialSteps most{0, 0};
  for (gpu::threadIdx.x = 0; gpu::threadIdx.x < threads; ++gpu::threadIdx.x) {
    SerialSteps steps{0, 0};
    gpu::Peers(arguments, gpu::kAllMembers).Divide([&](int /*member*/, gpu::Team /*team*/) { ++steps.copies; });
    lane.ForPeers([&](int /*member*/) { ++steps.words; });
    most = {std::max(most.copies, steps.copies), std::max(most.words, steps.words)};
  }
  return most;
}

}  // namespace xla_shmem::testing
