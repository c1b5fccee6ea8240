// Doubles libnvshmem_host.so.3: its C calls, over tests/doubles and streams of the CUDA double.
//
// The processes that init with one unique id form the world; the id contains the key of their shared-memory segments.
// Every argument is checked, which the real library does not do: a wrong call ends the process with its reason.
//
// NVSHMEM_DOUBLE selects a failure: "old" (release 2.11), "no-id" (nvshmemx_get_uniqueid returns 7), "no-init" (init
// returns 7), "half-init" (init returns 0 with nothing but the bootstrap done, as the real one does when what follows
// fails), "no-peer" (nvshmem_ptr reaches no other PE), "shared-gpu" (calls on streams end the process, as they do where
// PEs share a GPU without MPS), "other-layout" (more memory in front of the first allocation), "hang" (init never
// returns). NVSHMEM_DOUBLE_HEAP: bytes of memory behind the heap, whatever NVSHMEM_SYMMETRIC_SIZE
// promises. NVSHMEM_DOUBLE_JOB: first half of the segments' key, 16 hexadecimal digits. NVSHMEM_DOUBLE_TIMEOUT: seconds
// for which collective calls wait for the other PEs.
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/doubles/nvshmem_init_arguments.h"
#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/segment.h"

namespace xla_shmem::testing {
namespace {

using Clock = std::chrono::steady_clock;

using nvshmem_double::InitAttributes;
using nvshmem_double::kInitWithUniqueId;
using nvshmem_double::kInternalError;
using nvshmem_double::UniqueId;
using nvshmem_double::UniqueIdArguments;

constexpr unsigned kSyncMemops = 0x80;                                               // CU_CTX_SYNC_MEMOPS
enum InitStatus : int { kNotInitialized = 0, kBootstrapped = 1, kInitialized = 2 };  // nvshmemx_init_status_t

struct IdContent {
  uint64_t magic;
  shm::JobKey job;
};
constexpr uint64_t kMagic = 0x656c62756f64;

[[noreturn]] void Refuse(const std::string& why) {
  fprintf(stderr, "nvshmem double: %s\n", why.c_str());
  fflush(stderr);
  abort();
}

void Demand(bool holds, const std::string& otherwise) {
  if (!holds) Refuse(otherwise);
}

const char* Setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

// The environment as the real library knows it: it reads all its variables at once, in the first call that needs one
// of them. That is get_uniqueid on PE 0 and init on the others.
std::map<std::string, std::string>& Snapshot() {
  static auto* const snapshot = new std::map<std::string, std::string>;
  return *snapshot;
}

void TakeSnapshot() {
  static bool taken = false;
  if (std::exchange(taken, true)) return;
  for (const char* name :
       {"NVSHMEM_SYMMETRIC_SIZE", "NVSHMEM_MAX_TEAMS", "NVSHMEM_DISABLE_NCCL", "NVSHMEM_REMOTE_TRANSPORT"}) {
    if (const char* value = getenv(name); value != nullptr) Snapshot()[name] = value;
  }
}

std::string Known(const char* name, const char* otherwise) {
  const auto found = Snapshot().find(name);
  return found == Snapshot().end() ? otherwise : found->second;
}

bool Failing(const char* how) { return strcmp(Setting("NVSHMEM_DOUBLE", ""), how) == 0; }

Clock::time_point Deadline() {
  const double seconds = strtod(Setting("NVSHMEM_DOUBLE_TIMEOUT", "20"), nullptr);
  return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

struct World {
  InitStatus status = kNotInitialized;
  std::unique_ptr<shm::Heap> heap;
  int pe = -1;
};

World& TheWorld() {
  static auto* world = new World;
  return *world;
}

// Ends the process unless `wrong` is "".
void DemandRight(const std::string& wrong) { Demand(wrong.empty(), wrong); }

IdContent ReadId(const UniqueId* id) {
  DemandRight(nvshmem_double::WrongUniqueId(id));
  IdContent content;
  memcpy(&content, id->internal, sizeof(content));
  Demand(content.magic == kMagic, "this unique id is not of nvshmemx_get_uniqueid");
  return content;
}

// Maps the segments of all PEs and waits until all have mapped the segment of this PE. Fails after the deadline.
Result<std::unique_ptr<shm::Heap>> ConnectHeaps(const shm::JobKey& job, int pe, int n_pes, size_t bytes) {
  const auto deadline = Deadline();
  const auto late = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Clock::now() > deadline;
  };
  std::vector<std::unique_ptr<shm::Segment>> segments(n_pes);
  std::vector<int> process_of_pe(n_pes);
  std::iota(process_of_pe.begin(), process_of_pe.end(), 0);
  Result<std::unique_ptr<shm::Segment>> own = shm::Segment::Create(job, pe, bytes + shm::kPageBytes);
  if (!own.ok()) return own.status();
  segments[pe] = *std::move(own);
  for (int other = 0; other < n_pes; ++other) {
    while (segments[other] == nullptr) {
      Result<std::unique_ptr<shm::Segment>> segment = shm::Segment::Attach(job, other);
      if (segment.ok()) {
        segments[other] = *std::move(segment);
      } else if (late()) {
        return segment.status();
      }
    }
    segments[other]->NoteAttached(n_pes);
  }
  while (segments[pe]->header().attached.load() < static_cast<uint32_t>(n_pes)) {
    if (late()) return Status::Error("the other PEs have not come");
  }
  return shm::Heap::Create(std::move(segments), process_of_pe, pe);
}

// The real library allocates the synchronisation memory of all teams that may exist before anything else, so that
// NVSHMEM_MAX_TEAMS decides where later allocations lie. There a team takes some 0.6 MiB.
bool AllocateTeams(shm::Heap& heap) {
  constexpr size_t kTeamBytes = 1024;
  const size_t teams = strtoull(Known("NVSHMEM_MAX_TEAMS", "256").c_str(), nullptr, 10);
  return heap.Allocate(teams * kTeamBytes * (Failing("other-layout") ? 2 : 1)) != SIZE_MAX;
}

const NvshmemApi& HostApi(const char* call) {
  // The real library ends the process too.
  Demand(TheWorld().status == kInitialized, std::string(call) + " before NVSHMEM is initialised");
  return nvshmem_double::Api().shmem;
}

// True once all PEs have come.
bool Barrier() {
  nvshmem_double::Stream stream;
  return nvshmem_double::Api().shmem.barrier_on_stream(kTeamWorld, &stream) == 0 &&
         nvshmem_double::Synchronize(stream, Deadline(), std::chrono::microseconds(20)).ok();
}

// Checks the arguments of a call on a stream and returns the table.
const NvshmemApi& OnStream(const char* call, const void* symmetric, size_t bytes, int pe, StreamHandle stream) {
  HostApi(call);
  Demand(!Failing("shared-gpu"), std::string(call) + " between PEs that share a GPU");
  const shm::Heap& heap = *TheWorld().heap;
  const char* base = heap.base(TheWorld().pe);
  const auto* address = static_cast<const char*>(symmetric);
  Demand(stream != nullptr, std::string(call) + " on the null stream");
  Demand(pe >= 0 && pe < heap.n_pes(), std::string(call) + " for PE " + std::to_string(pe));
  Demand(address >= base && address + bytes <= base + heap.bytes(),
         std::string(call) + " for memory that is not in this PE's symmetric heap");
  return CudaDouble::Shmem();
}

void CheckSignal(const char* call, const uint64_t* word, int op) {
  Demand(reinterpret_cast<uintptr_t>(word) % sizeof(*word) == 0, std::string(call) + " of a word that is not aligned");
  Demand(op == kSignalSet || op == kSignalAdd, std::string(call) + " with operation " + std::to_string(op));
}

}  // namespace
}  // namespace xla_shmem::testing

extern "C" {

int cuCtxGetFlags(unsigned* flags);
int cuCtxSetFlags(unsigned flags);

using namespace xla_shmem;           // NOLINT(google-build-using-namespace)
using namespace xla_shmem::testing;  // NOLINT(google-build-using-namespace)

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = Failing("old") ? 2 : 3;
  *minor = Failing("old") ? 11 : 8;
  *patch = 0;
}

int nvshmemx_get_uniqueid(UniqueId* id) {
  TakeSnapshot();
  if (Failing("no-id")) return kInternalError;
  std::random_device random;
  IdContent content{kMagic, {}};
  for (uint64_t& word : content.job.words) word = static_cast<uint64_t>(random()) << 32 | random();
  if (const char* job = getenv("NVSHMEM_DOUBLE_JOB")) content.job.words[0] = strtoull(job, nullptr, 16);
  *id = {(1 << 16) + static_cast<int32_t>(sizeof(UniqueId)), {}};
  memcpy(id->internal, &content, sizeof(content));
  return 0;
}

int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId* id, InitAttributes* attributes) {
  DemandRight(nvshmem_double::WrongAttributes(*attributes));
  attributes->arguments.unique_id.id = id;
  attributes->arguments.unique_id.rank = rank;
  attributes->arguments.unique_id.ranks = ranks;
  return 0;
}

int nvshmemx_hostlib_init_attr(unsigned flags, InitAttributes* attributes) {
  World& world = TheWorld();
  Demand(flags == kInitWithUniqueId, "init with flags " + std::to_string(flags));
  Demand(world.status == kNotInitialized, "a second init");
  Demand(CudaDouble::CurrentContext() != nullptr, "init without a current CUDA context");
  TakeSnapshot();
  while (Failing("hang")) pause();
  const size_t promised = strtoull(Known("NVSHMEM_SYMMETRIC_SIZE", "0").c_str(), nullptr, 10);
  Demand(promised > 0, "NVSHMEM_SYMMETRIC_SIZE is no number of bytes");
  Demand(Known("NVSHMEM_DISABLE_NCCL", "") == "1", "NVSHMEM_DISABLE_NCCL is not 1");
  Demand(Known("NVSHMEM_REMOTE_TRANSPORT", "") == "none", "NVSHMEM_REMOTE_TRANSPORT is not none");
  DemandRight(nvshmem_double::WrongAttributes(*attributes));
  const UniqueIdArguments& arguments = attributes->arguments.unique_id;
  const IdContent id = ReadId(arguments.id);
  Demand(arguments.rank >= 0 && arguments.rank < arguments.ranks,
         "init as PE " + std::to_string(arguments.rank) + " of " + std::to_string(arguments.ranks));
  if (Failing("no-init")) return kInternalError;
  const size_t backed = strtoull(Setting("NVSHMEM_DOUBLE_HEAP", "16777216"), nullptr, 10);
  auto heap = ConnectHeaps(id.job, arguments.rank, arguments.ranks, promised < backed ? promised : backed);
  if (heap.ok()) world.heap = *std::move(heap);
  world.pe = arguments.rank;
  if (!heap.ok() || !nvshmem_double::SetHeap(world.heap.get()) || !Barrier() || !AllocateTeams(*world.heap)) {
    fprintf(stderr, "nvshmem double: %s\n", heap.message().c_str());
    return kInternalError;
  }
  // The real library sets CU_CTX_SYNC_MEMOPS on the context and leaves it so.
  unsigned context_flags = 0;
  cuCtxGetFlags(&context_flags);
  cuCtxSetFlags(context_flags | kSyncMemops);
  world.status = Failing("half-init") ? kBootstrapped : kInitialized;
  return 0;
}

int nvshmemx_init_status() { return TheWorld().status; }

void nvshmemx_hostlib_finalize() { Refuse("finalize is collective, and a process that ends does not wait for others"); }

int nvshmem_my_pe() { return HostApi("nvshmem_my_pe").my_pe(); }
int nvshmem_n_pes() { return HostApi("nvshmem_n_pes").n_pes(); }
void* nvshmem_malloc(size_t bytes) {
  void* memory = HostApi("nvshmem_malloc").malloc(bytes);
  return Barrier() ? memory : nullptr;
}
void nvshmem_free(void* memory) { HostApi("nvshmem_free").free(memory); }
void* nvshmem_ptr(const void* address, int pe) {
  const NvshmemApi& api = HostApi("nvshmem_ptr");
  const shm::Heap& heap = *TheWorld().heap;
  const auto* byte = static_cast<const char*>(address);
  const char* base = heap.base(TheWorld().pe);
  if (byte < base || byte >= base + heap.bytes()) return nullptr;
  return Failing("no-peer") && pe != TheWorld().pe ? nullptr : api.ptr(address, pe);
}

void nvshmemx_putmem_on_stream(void* dest, const void* source, size_t bytes, int pe, StreamHandle stream) {
  OnStream("nvshmemx_putmem_on_stream", dest, bytes, pe, stream).putmem_on_stream(dest, source, bytes, pe, stream);
}
void nvshmemx_putmem_signal_on_stream(void* dest, const void* source, size_t bytes, uint64_t* word, uint64_t signal,
                                      int op, int pe, StreamHandle stream) {
  CheckSignal("nvshmemx_putmem_signal_on_stream", word, op);
  OnStream("nvshmemx_putmem_signal_on_stream", word, sizeof(*word), pe, stream);
  OnStream("nvshmemx_putmem_signal_on_stream", dest, bytes, pe, stream)
      .putmem_signal_on_stream(dest, source, bytes, word, signal, op, pe, stream);
}
void nvshmemx_signal_op_on_stream(uint64_t* word, uint64_t signal, int op, int pe, StreamHandle stream) {
  CheckSignal("nvshmemx_signal_op_on_stream", word, op);
  OnStream("nvshmemx_signal_op_on_stream", word, sizeof(*word), pe, stream)
      .signal_op_on_stream(word, signal, op, pe, stream);
}
void nvshmemx_signal_wait_until_on_stream(uint64_t* word, int compare, uint64_t value, StreamHandle stream) {
  CheckSignal("nvshmemx_signal_wait_until_on_stream", word, kSignalSet);
  Demand(compare >= kCmpEq && compare <= kCmpGe, "a wait with comparison " + std::to_string(compare));
  OnStream("nvshmemx_signal_wait_until_on_stream", word, sizeof(*word), TheWorld().pe, stream)
      .signal_wait_until_on_stream(word, compare, value, stream);
}
void nvshmemx_quiet_on_stream(StreamHandle stream) { HostApi("nvshmemx_quiet_on_stream").quiet_on_stream(stream); }

int nvshmemx_barrier_on_stream(TeamHandle team, StreamHandle stream) {
  HostApi("nvshmemx_barrier_on_stream");
  return CudaDouble::Shmem().barrier_on_stream(team, stream);
}
int nvshmem_team_my_pe(TeamHandle team) { return HostApi("nvshmem_team_my_pe").team_my_pe(team); }
int nvshmem_team_n_pes(TeamHandle team) { return HostApi("nvshmem_team_n_pes").team_n_pes(team); }
int nvshmem_team_translate_pe(TeamHandle team, int pe, TeamHandle other) {
  return HostApi("nvshmem_team_translate_pe").team_translate_pe(team, pe, other);
}
int nvshmem_team_split_strided(TeamHandle parent, int start, int stride, int size, const void* config, long mask,
                               TeamHandle* team) {
  return HostApi("nvshmem_team_split_strided").team_split_strided(parent, start, stride, size, config, mask, team);
}
int nvshmem_team_split_2d(TeamHandle parent, int range, const void* x_config, long x_mask, TeamHandle* x_team,
                          const void* y_config, long y_mask, TeamHandle* y_team) {
  return HostApi("nvshmem_team_split_2d")
      .team_split_2d(parent, range, x_config, x_mask, x_team, y_config, y_mask, y_team);
}
void nvshmem_team_destroy(TeamHandle team) { HostApi("nvshmem_team_destroy").team_destroy(team); }

}  // extern "C"
