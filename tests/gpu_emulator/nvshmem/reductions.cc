// Reductions on teams: kernels that wait for one another, as the real library's are.
//
// Each member publishes what it reduces; a member that calls another reduction, or of other elements or other symmetric
// objects, ends the process. Members add in an order that begins with their own operand and round after each step, so
// that sums of floating-point numbers differ between PEs, as OpenSHMEM allows. A result is garbage until all members
// have read their operands.
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "driver/device_view.h"
#include "driver/named_kernels.h"
#include "libraries/matrix_elements.h"
#include "nvshmem/control.h"
#include "nvshmem/world.h"

namespace emulator::nvshmem {
namespace {

constexpr int kGarbage = 0xCD;

enum Kind { kSum, kProd, kMin, kMax };

struct BFloat16 {
  uint16_t bits;
};

template <Kind kKind, typename T>
T Combined(T a, T b) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {cublas::ToBFloat16(Combined<kKind>(cublas::FromBFloat16(a.bits), cublas::FromBFloat16(b.bits)))};
  } else if constexpr (kKind == kMin) {
    return b < a ? b : a;
  } else if constexpr (kKind == kMax) {
    return a < b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {  // unsigned, because sums and products may overflow
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(kKind == kSum ? x + y : x * y);
  } else {
    return static_cast<T>(kKind == kSum ? a + b : a * b);
  }
}

// total[i] = total[i] (kKind) term[i]
template <typename T, Kind kKind>
void Combine(void* total, const void* term, size_t elements) {
  auto* totals = static_cast<T*>(total);
  const auto* terms = static_cast<const T*>(term);
  for (size_t i = 0; i < elements; ++i) totals[i] = Combined<kKind>(totals[i], terms[i]);
}

struct Reduction {
  const char* call;
  void (*combine)(void* total, const void* term, size_t elements);
  int team;
  char* dest;
  const char* source;
  size_t elements;
  size_t bytes;
};

// Waits like a kernel: until the GPU has failed.
template <typename Reached>
bool WaitOnGpu(const Reduction& reduction, Reached reached) {
  bool failed = false;
  const bool came = WaitUntil([&] { return (failed = gpu_emulator_failed() != 0) || reached(); });
  Demand(came, std::string(reduction.call) + ": not all members of team " + std::to_string(reduction.team) + " came");
  return !failed;
}

std::string Described(const Control::Reduction& what) {
  return std::string(what.call) + " of " + std::to_string(what.elements) + " elements from offset " +
         std::to_string(what.source) + " of the heap to offset " + std::to_string(what.dest);
}

// Publishes this PE's reduction and compares it with that of each member. False if the GPU has failed.
bool Agree(const Reduction& reduction, const std::vector<int>& members, uint64_t number) {
  const World& world = TheWorld();
  Control::Reduction* const of_pe = TheControl().reductions[reduction.team];
  Control::Reduction& own = of_pe[world.me];
  snprintf(own.call, sizeof(own.call), "%s", reduction.call);
  own.elements = reduction.elements;
  own.source = reduction.source - world.heaps[world.me];
  own.dest = reduction.dest - world.heaps[world.me];
  own.begun.store(number);
  for (const int pe : members) {
    const Control::Reduction& other = of_pe[pe];
    if (!WaitOnGpu(reduction, [&] { return other.begun.load() >= number; })) return false;
    Demand(Described(other) == Described(own), "reductions of team " + std::to_string(reduction.team) +
                                                   " that do not match: PE " + std::to_string(world.me) + " calls " +
                                                   Described(own) + ", PE " + std::to_string(pe) + " " +
                                                   Described(other));
  }
  return true;
}

void Run(const void* parameters) {
  Reduction reduction;
  memcpy(&reduction, parameters, sizeof(reduction));
  const Team& team = TheWorld().teams[reduction.team];
  Control::Reduction* const of_pe = TheControl().reductions[reduction.team];
  Control::Reduction& own = of_pe[TheWorld().me];
  Demand(own.running.exchange(1) == 0, std::string(reduction.call) + " runs beside another reduction of team " +
                                           std::to_string(reduction.team) + " on this PE");
  const uint64_t number = own.begun.load() + 1;
  if (reduction.dest != reduction.source) memset(DeviceView(reduction.dest), kGarbage, reduction.bytes);
  if (!Agree(reduction, team.members, number)) return;
  std::vector<char> total(reduction.bytes);
  for (size_t i = 0; i < team.members.size(); ++i) {
    const int pe = team.members[(team.me + i) % team.members.size()];
    const char* term = DeviceView(OnPe(reduction.source, pe));
    if (i == 0) {
      memcpy(total.data(), term, reduction.bytes);
    } else {
      reduction.combine(total.data(), term, reduction.elements);
    }
  }
  own.read.store(number);
  for (const int pe : team.members) {
    if (!WaitOnGpu(reduction, [&] { return of_pe[pe].read.load() >= number; })) return;
  }
  memcpy(DeviceView(reduction.dest), total.data(), reduction.bytes);
  own.running.store(0);
}

template <typename T, Kind kKind>
int Enqueue(const char* call, int number, T* dest, const T* source, size_t elements, CUstream stream) {
  CheckOnStream(call, stream);
  const std::string prefix = std::string(call) + " ";
  const World& world = TheWorld();
  Demand(number >= 0 && number < static_cast<int>(world.teams.size()) && world.teams[number].me >= 0,
         prefix + "on team " + std::to_string(number) + ", of which this PE is no member");
  Demand(elements > 0, prefix + "of no elements");
  const Reduction reduction{
      call,     Combine<T, kKind>,   number, reinterpret_cast<char*>(dest), reinterpret_cast<const char*>(source),
      elements, elements * sizeof(T)};
  for (const char* object : {reduction.source, static_cast<const char*>(reduction.dest)}) {
    CheckSymmetric(call, object, reduction.bytes);
    Demand(reinterpret_cast<uintptr_t>(object) % sizeof(T) == 0, prefix + "of elements that are not aligned");
  }
  const bool apart =
      reduction.source + reduction.bytes <= reduction.dest || reduction.dest + reduction.bytes <= reduction.source;
  Demand(apart || reduction.dest == reduction.source, prefix + "whose operand and result overlap in part");
  return static_cast<int>(gpu_emulator_launch(stream, call, Run, &reduction, sizeof(reduction)));
}

}  // namespace

#define REDUCTION(NAME, TYPE, OPERATION, KIND)                                                                     \
  int nvshmemx_##NAME##_##OPERATION##_reduce_on_stream(int team, TYPE* dest, const TYPE* source, size_t elements,  \
                                                       CUstream stream) {                                          \
    return Enqueue<TYPE, KIND>("nvshmemx_" #NAME "_" #OPERATION "_reduce_on_stream", team, dest, source, elements, \
                               stream);                                                                            \
  }
#define REDUCTIONS(NAME, TYPE)       \
  REDUCTION(NAME, TYPE, sum, kSum)   \
  REDUCTION(NAME, TYPE, prod, kProd) \
  REDUCTION(NAME, TYPE, min, kMin)   \
  REDUCTION(NAME, TYPE, max, kMax)

extern "C" {

REDUCTIONS(float, float)
REDUCTIONS(double, double)
REDUCTIONS(half, _Float16)
REDUCTIONS(bfloat16, BFloat16)
REDUCTIONS(int8, int8_t)
REDUCTIONS(int16, int16_t)
REDUCTIONS(int32, int32_t)
REDUCTIONS(int64, int64_t)
REDUCTIONS(uint8, uint8_t)
REDUCTIONS(uint16, uint16_t)
REDUCTIONS(uint32, uint32_t)
REDUCTIONS(uint64, uint64_t)

}  // extern "C"

}  // namespace emulator::nvshmem
