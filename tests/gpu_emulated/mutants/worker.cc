// One of two PEs, without JAX: transfers of the GPU path on an emulated GPU, compared with what they must give.
//
//   mutants_worker PE FOLDER SEED DEADLINE     FOLDER: where the PEs leave notes for each other; DEADLINE: in seconds
//
// Exit status: 0 all right, 1 wrong elements, 2 an error of the GPU path (the watchdog's too), 3 an error of the
// driver. No host waits between the commands of a round, so only streams, events, signals and credits keep values
// apart.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/message_tag.h"

namespace xla_shmem::testing {
namespace {

constexpr int kPes = 2;
constexpr size_t kArenaBytes = 256 << 10;  // slots of some 20 KiB: large transfers go round the ring
constexpr int kRounds = 24;
constexpr int kLaunches = 6;

int me = 0;
std::string folder;

// The one device of this process.
GpuRuntime& TheGpu() { return *GpuProcess::Get().Find(me); }

[[noreturn]] void End(int status, const std::string& why) {
  fprintf(stderr, "PE %d: %s\n", me, why.c_str());
  fflush(stderr);
  _exit(status);
}

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  // The watchdog's words come first, if it has any.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  End(3, std::string(call) + " returns " + std::to_string(result));
}

void Check(const Status& status) {
  if (!status.ok()) End(2, status.message());
}

void LeaveNote(const std::string& name, const std::string& text) {
  const std::string path = folder + "/" + name;
  std::ofstream(path + ".draft", std::ios::binary) << text;
  rename((path + ".draft").c_str(), path.c_str());
}

std::string WaitForNote(const std::string& name) {
  for (int i = 0; i < 20000; ++i) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::stringstream text;
    if (file && text << file.rdbuf()) return text.str();
    usleep(1000);
  }
  End(2, "the other PE left no note " + name);
}

void Meet(const std::string& where) {
  LeaveNote(where + std::to_string(me), "here");
  WaitForNote(where + std::to_string(1 - me));
}

int32_t Value(int pe, int round, size_t element) {
  return static_cast<int32_t>(1000003 * pe + 7919 * round + element + 1);
}

// Memory of the GPU, and pinned memory from which rounds copy to it.
struct Buffer {
  explicit Buffer(size_t count) : bytes(count * sizeof(int32_t)) {
    CUdeviceptr address = 0;
    Check(cuMemAlloc(&address, bytes), "cuMemAlloc");
    device = reinterpret_cast<char*>(address);
  }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(device); }
  size_t bytes;
  char* device;
};

int32_t* Pinned(size_t count) {
  void* memory = nullptr;
  Check(cuMemHostAlloc(&memory, count * sizeof(int32_t), 0), "cuMemHostAlloc");
  return static_cast<int32_t*>(memory);
}

class Run {
 public:
  explicit Run(unsigned seed) : transfers_(TheGpu().transfers()), random_(seed) {
    Check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  // Many transfers in flight, joined in random order. Each operand is written by the stream right before the start, and
  // overwritten right behind the done. The PEs are ahead of each other in turns.
  void ManyInFlight() {
    std::vector<Transfer> started;
    std::vector<int> unfinished;
    for (int round = 0; round < kRounds; ++round) {
      // Even: an exchange has two parts.
      const bool is_large = round == 0 || random_() % 3 == 0;
      const size_t small = 1 + random_() % (random_() % 2 == 0 ? 1000 : 120);  // the smallest go in packets
      const size_t count = 2 * (is_large ? 10000 + random_() % 75000 : small);
      constexpr Kind kKinds[] = {Kind::kRing,     Kind::kChain,     Kind::kSum,
                                 Kind::kExchange, Kind::kBroadcast, Kind::kRagged};
      started.push_back(Make(count, round, round == 0 ? Kind::kRing : kKinds[random_() % std::size(kKinds)]));
      if (random_() % kPes == static_cast<unsigned>(me)) usleep(3000);
      const Transfer& transfer = started.back();
      WriteOperand(transfer);
      if (transfer.kind != Kind::kRing && transfer.kind != Kind::kChain) {
        Check(transfers_.StartGroup({static_cast<uint64_t>(round), 1}, Group(transfer), stream_));
      } else {
        Check(transfers_.StartPermute({static_cast<uint64_t>(round), 1}, Permute(transfer), stream_));
      }
      unfinished.push_back(round);
      while (unfinished.size() > random_() % 6) Join(started, &unfinished);
    }
    while (!unfinished.empty()) Join(started, &unfinished);
    Compare(started);
  }

  // Small messages to a PE that is late. The sender waits for nobody, so it comes to use a slot again.
  void OneWay() {
    if (me == 1) usleep(50000);
    std::vector<Transfer> started;
    for (int i = 0; i < 12; ++i) started.push_back(StartSmall(200 + i, Kind::kChain));
    for (const Transfer& transfer : started) FinishSmall(transfer);
    for (int i = 12; i < 40; ++i) {
      started.push_back(StartSmall(200 + i, Kind::kChain));
      FinishSmall(started.back());
    }
    Compare(started);
  }

  // Small messages to each other: more of them open than have slots, the last one first to end; then one at a time, of
  // which one PE is late.
  void BothWays() {
    std::vector<Transfer> started;
    for (int i = 0; i < 7; ++i) started.push_back(StartSmall(300 + i, Kind::kRing));
    std::for_each(started.rbegin(), started.rend(), [this](const Transfer& transfer) { FinishSmall(transfer); });
    for (int i = 7; i < 40; ++i) {
      if (i % kPes == me) Check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
      started.push_back(StartSmall(300 + i, Kind::kRing));
      FinishSmall(started.back());
    }
    Compare(started);
  }

  // Permutes of many and of one chunk, a sum and two exchanges in a CUDA graph that is launched again and again on
  // other operands, with a permute of the stream itself behind each launch.
  void Graph() {
    Transfer permute = Make(30000, 100, Kind::kRing), sum = Make(30000, 100, Kind::kSum);
    Transfer exchange = Make(30000, 100, Kind::kExchange), small = Make(100, 100, Kind::kRing);
    Transfer between = Make(40000, 100, Kind::kChain), ragged = Make(30000, 100, Kind::kRagged);
    Check(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    Check(transfers_.RunPermute(Permute(permute), stream_));
    Check(transfers_.RunPermute(Permute(small), stream_));
    Check(transfers_.RunGroup(Group(sum), stream_));
    Check(transfers_.RunGroup(Group(exchange), stream_));
    Check(transfers_.RunGroup(Group(ragged), stream_));
    CUgraph graph = nullptr;
    Check(cuStreamEndCapture(stream_, &graph), "cuStreamEndCapture");
    CUgraphExec executable = nullptr;
    Check(cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
    std::vector<Transfer> launched;
    for (int launch = 0; launch < kLaunches; ++launch) {
      for (Transfer* transfer : {&permute, &small, &sum, &exchange, &ragged, &between}) {
        transfer->round = 100 + launch;
        transfer->written = Pinned(transfer->count);
        transfer->seen = Pinned(transfer->count);
        transfer->counts = PinnedCounts();
        WriteOperand(*transfer);
      }
      Check(cuGraphLaunch(executable, stream_), "cuGraphLaunch");
      Check(transfers_.RunPermute(Permute(between), stream_));
      for (Transfer* transfer : {&permute, &small, &sum, &exchange, &ragged, &between}) {
        ReadResult(*transfer);
        launched.push_back(*transfer);
      }
    }
    Compare(launched);
    const gpu::Transfers::InGraphs counted = transfers_.in_graphs();
    if (counted.run != counted.captured * kLaunches) {
      End(1, std::to_string(counted.run) + " operations have ended in " + std::to_string(kLaunches) + " graphs of " +
                 std::to_string(counted.captured));
    }
  }

 private:
  enum class Kind {
    kRing,   // to each other
    kChain,  // from PE 0 to PE 1; PE 0 gets zeros
    kSum,
    kExchange,   // an all-to-all
    kBroadcast,  // from PE 0, which waits for nobody
    kRagged,     // rows of one element
  };
  struct Transfer {
    size_t count;
    int round;
    Kind kind;
    Buffer operand, result;
    int32_t* written;
    int32_t* seen;
    // Of a ragged all-to-all: input offsets, send sizes, output offsets, receive sizes.
    Buffer numbers;
    uint64_t* counts;
  };
  static constexpr size_t kCountWords = size_t{4} * kPes * sizeof(uint64_t) / sizeof(int32_t);
  static uint64_t* PinnedCounts() { return reinterpret_cast<uint64_t*>(Pinned(kCountWords)); }

  static Transfer Make(size_t count, int round, Kind kind) {
    return {count,         round, kind, Buffer(count), Buffer(count), Pinned(count), Pinned(count), Buffer(kCountWords),
            PinnedCounts()};
  }

  // One array or two, whose second one does not begin at a multiple of 16 bytes.
  static gpu::Buffers BuffersOf(const Transfer& transfer) {
    char* const operand = transfer.operand.device;
    char* const result = transfer.result.device;
    const size_t bytes = transfer.operand.bytes;
    const bool has_one = transfer.kind == Kind::kExchange || transfer.kind == Kind::kRagged;
    if (has_one || transfer.count % 3 != 0) return {{operand}, {result}, {bytes}};
    const size_t first = sizeof(int32_t) * (transfer.count / 3);
    return {{operand, operand + first}, {result, result + first}, {first, bytes - first}};
  }
  // Graphs repeat one tag.
  static uint32_t TagOf(const Transfer& transfer) {
    const int round = std::min(transfer.round, 100);
    return gpu::TagOfOperation(static_cast<uint64_t>(10 * round) + static_cast<uint64_t>(transfer.kind));
  }
  static gpu::PermuteArguments Permute(const Transfer& transfer) {
    const bool is_ring = transfer.kind == Kind::kRing;
    return {"permute", TagOf(transfer), is_ring || me == 1 ? 1 - me : -1, is_ring || me == 0 ? 1 - me : -1,
            BuffersOf(transfer)};
  }
  static gpu::GroupArguments Group(const Transfer& transfer) {
    gpu::GroupArguments arguments;
    arguments.tag = TagOf(transfer);
    arguments.group = {0, 1};
    arguments.buffers = BuffersOf(transfer);
    if (transfer.kind == Kind::kSum) {
      arguments.name = "sum";
      arguments.types.assign(arguments.buffers.bytes.size(), ElementType::kS32);
    } else if (transfer.kind == Kind::kBroadcast) {
      arguments.name = "broadcast";
      arguments.op = CollectiveOp::kCollectiveBroadcast;
    } else if (transfer.kind == Kind::kRagged) {
      const auto* const numbers = reinterpret_cast<const uint64_t*>(transfer.numbers.device);
      arguments.name = "ragged";
      arguments.op = CollectiveOp::kRaggedAllToAll;
      arguments.buffers.operands = {transfer.result.device};
      arguments.ragged = {transfer.operand.device, sizeof(int32_t),    transfer.count,    transfer.count, 1, numbers,
                          numbers + kPes,          numbers + 2 * kPes, numbers + 3 * kPes};
    } else {
      arguments.name = "exchange";
      arguments.op = CollectiveOp::kAllToAll;
      arguments.buffers.bytes[0] /= kPes;
    }
    return arguments;
  }

  // A permute of one block or of several, and its end.
  Transfer StartSmall(int round, Kind kind) {
    Transfer transfer = Make(random_() % 2 == 0 ? 100 : 2200, round, kind);
    WriteOperand(transfer);
    Check(transfers_.StartPermute({static_cast<uint64_t>(round), 1}, Permute(transfer), stream_));
    return transfer;
  }
  void FinishSmall(const Transfer& transfer) {
    Check(transfers_.Finish({static_cast<uint64_t>(transfer.round), 1}, "op", stream_));
    ReadResult(transfer);
  }

  void Join(const std::vector<Transfer>& started, std::vector<int>* unfinished) {
    const auto chosen = unfinished->begin() + static_cast<ptrdiff_t>(random_() % unfinished->size());
    const Transfer& transfer = started[*chosen];
    unfinished->erase(chosen);
    Check(transfers_.Finish({static_cast<uint64_t>(transfer.round), 1}, "op", stream_));
    ReadResult(transfer);
    Check(cuMemsetD8Async(transfer.operand.address(), 0xEE, transfer.operand.bytes, stream_), "cuMemsetD8Async");
  }

  void WriteOperand(const Transfer& transfer) {
    for (size_t i = 0; i < transfer.count; ++i) transfer.written[i] = Value(me, transfer.round, i);
    Check(cuMemcpyAsync(transfer.operand.address(), reinterpret_cast<CUdeviceptr>(transfer.written),
                        transfer.operand.bytes, stream_),
          "cuMemcpyAsync");
    if (transfer.kind == Kind::kRagged) WriteRagged(transfer);
    if (transfer.kind == Kind::kChain) Spoil(transfer);
  }
  void WriteRagged(const Transfer& transfer) {
    for (int pe = 0; pe < kPes; ++pe) {
      transfer.counts[pe] = Half(transfer) * pe;
      transfer.counts[kPes + pe] = Rows(transfer, me, pe);
      transfer.counts[2 * kPes + pe] = Target(transfer, me);
      transfer.counts[3 * kPes + pe] = Rows(transfer, pe, me);
    }
    Check(cuMemcpyAsync(transfer.numbers.address(), reinterpret_cast<CUdeviceptr>(transfer.counts),
                        transfer.numbers.bytes, stream_),
          "cuMemcpyAsync");
    Spoil(transfer);
  }
  void Spoil(const Transfer& transfer) {
    Check(cuMemsetD8Async(transfer.result.address(), kUntouched, transfer.result.bytes, stream_), "cuMemsetD8Async");
  }
  void ReadResult(const Transfer& transfer) {
    Check(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(transfer.seen), transfer.result.address(), transfer.result.bytes,
                        stream_),
          "cuMemcpyAsync");
  }

  // Each PE has a half for each one, of which it sends some rows, or none, to their second place on.
  static constexpr unsigned char kUntouched = 0x11;
  static size_t Half(const Transfer& transfer) { return transfer.count / kPes; }
  static size_t Rows(const Transfer& transfer, int from, int to) {
    return Half(transfer) * ((transfer.round + from + 2 * to) % 4) / 4;
  }
  static size_t Target(const Transfer& transfer, int from) { return Half(transfer) * from + 1; }
  static int32_t ExpectedRagged(const Transfer& transfer, size_t i) {
    for (int from = 0; from < kPes; ++from) {
      const size_t first = Target(transfer, from);
      if (i < first || i >= first + Rows(transfer, from, me)) continue;
      return Value(from, transfer.round, Half(transfer) * me + i - first);
    }
    return kUntouched * 0x01010101;
  }

  static int32_t Expected(const Transfer& transfer, size_t i) {
    if (transfer.kind == Kind::kRagged) return ExpectedRagged(transfer, i);
    if (transfer.kind == Kind::kExchange) {
      const size_t part = transfer.count / kPes;
      return Value(static_cast<int>(i / part), transfer.round, me * part + i % part);
    }
    if (transfer.kind == Kind::kBroadcast) return Value(0, transfer.round, i);
    const int32_t theirs = transfer.kind == Kind::kChain && me == 0 ? 0 : Value(1 - me, transfer.round, i);
    return theirs + (transfer.kind == Kind::kSum ? Value(me, transfer.round, i) : 0);
  }

  void Compare(const std::vector<Transfer>& transfers) {
    Check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
    for (const Transfer& transfer : transfers) {
      size_t wrong = 0;
      for (size_t i = 0; i < transfer.count; ++i) wrong += transfer.seen[i] != Expected(transfer, i);
      if (wrong == 0) continue;
      End(1, std::to_string(wrong) + " of " + std::to_string(transfer.count) + " elements are wrong in round " +
                 std::to_string(transfer.round));
    }
  }

  gpu::Transfers& transfers_;
  std::mt19937 random_;
  CUstream stream_ = nullptr;
};

void StartRuntime(std::chrono::seconds deadline) {
  GpuOpenOptions open;
  open.nvshmem_candidates = {"libnvshmem_host.so.3"};
  open.device = me;
  const Result<GpuFacts> facts = GpuProcess::Get().Open(open);
  Check(facts.status());
  if (!facts->nvshmem_error.empty()) End(3, facts->nvshmem_error);
  GpuRuntime& runtime = TheGpu();
  const Result<std::string> kernels =
      gpu::CompileKernels({"libnvrtc.so.13"}, gpu::kKernelSource, facts->compute_major * 10 + facts->compute_minor);
  Check(kernels.status());
  Check(runtime.LoadKernels(*kernels));
  if (me == 0) {
    const Result<std::string> id = GpuProcess::Get().UniqueId();
    Check(id.status());
    LeaveNote("id", *id);
  }
  GpuStartOptions start;
  start.pe = me;
  start.n_pes = kPes;
  start.unique_id = WaitForNote("id");
  start.arena_bytes = kArenaBytes;
  start.puts = gpu::Puts::kDriver;
  start.permute = GpuPermuteNamed(getenv("MUTANTS_PERMUTE")).value();
  start.deadline = deadline;
  start.multimem = getenv("MUTANTS_MULTIMEM") != nullptr;
  Check(runtime.Start(start).status());
  if (start.multimem && !runtime.has_multicast()) End(3, "there is no multicast memory");
  if (start.multimem) runtime.UseMultimem();
  Meet("started");
}

}  // namespace
}  // namespace xla_shmem::testing

int main(int, char** arguments) {
  using namespace xla_shmem::testing;  // NOLINT(google-build-using-namespace)
  me = atoi(arguments[1]);
  folder = arguments[2];
  StartRuntime(std::chrono::seconds(atoi(arguments[4])));
  const xla_shmem::gpu::ScopedContext context(TheGpu().device());
  Run run(static_cast<unsigned>(atoi(arguments[3])));
  run.OneWay();
  run.BothWays();
  run.ManyInFlight();
  run.Graph();
  // No PE may go while the other still puts to it.
  Meet("done");
  _exit(0);
}
