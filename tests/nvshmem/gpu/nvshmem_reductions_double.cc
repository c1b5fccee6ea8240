#include "tests/nvshmem/gpu/nvshmem_reductions_double.h"

#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::testing {
namespace {

// Keeps the functions for the streams and frees none: a test's reductions are few.
void Enqueue(StreamHandle stream, std::function<void()> function) {
  static std::mutex mutex;
  static std::deque<std::function<void()>> kept;
  std::function<void()>* argument;
  {
    std::lock_guard<std::mutex> lock(mutex);
    argument = &kept.emplace_back(std::move(function));
  }
  nvshmem_double::Api().stream.launch_host_func(
      stream, [](void* call) { (*static_cast<std::function<void()>*>(call))(); }, argument);
}

template <size_t kType, size_t kKind>
int ReduceOn(TeamHandle team, void* dest, const void* source, size_t elements, StreamHandle stream) {
  const NvshmemApi& shmem = nvshmem_double::Api().shmem;
  std::vector<const char*> inputs;
  for (int i = 0; i < shmem.team_n_pes(team); ++i) {
    const int pe = shmem.team_translate_pe(team, i, kTeamWorld);
    inputs.push_back(static_cast<const char*>(shmem.ptr(source, pe)));
  }
  const ElementType type = kGpuElementTypes[kType].type;
  auto reduced = std::make_shared<std::vector<char>>(elements * ElementBytes(type));
  const auto lock = CudaDouble::Lock(stream);
  shmem.barrier_on_stream(team, stream);
  Enqueue(stream,
          [=] { Reduce(type, kGpuReductionKinds[kKind], inputs.data(), inputs.size(), elements, reduced->data()); });
  shmem.barrier_on_stream(team, stream);
  Enqueue(stream, [=] { memcpy(dest, reduced->data(), reduced->size()); });
  return 0;
}

template <size_t kType>
void FillType(NvshmemApi* table) {
  table->reduce_on_stream[kType][0] = ReduceOn<kType, 0>;
  table->reduce_on_stream[kType][1] = ReduceOn<kType, 1>;
  table->reduce_on_stream[kType][2] = ReduceOn<kType, 2>;
  table->reduce_on_stream[kType][3] = ReduceOn<kType, 3>;
}

template <size_t... kTypes>
void FillTypes(NvshmemApi* table, std::index_sequence<kTypes...>) {
  (FillType<kTypes>(table), ...);
}

}  // namespace

const NvshmemApi& ShmemWithReductions() {
  static const NvshmemApi api = [] {
    NvshmemApi table = CudaDouble::Shmem();
    FillTypes(&table, std::make_index_sequence<std::size(kGpuElementTypes)>());
    return table;
  }();
  return api;
}

}  // namespace xla_shmem::testing
