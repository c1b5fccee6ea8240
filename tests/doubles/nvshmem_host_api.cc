#include "tests/doubles/nvshmem_host_api.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/doubles/multicast.h"

namespace xla_shmem::nvshmem_double {
namespace {

shm::Heap* current_heap = nullptr;
thread_local int bound_pe = -1;

// Of BarrierOnStream: where the words are in each heap, one for each PE, and the barriers of each local PE so far.
size_t barrier_words = 0;
std::mutex epochs_mutex;
std::map<int, uint64_t> epochs;

Stream& AsStream(StreamHandle stream) { return *static_cast<Stream*>(stream); }

int MyPe() { return bound_pe >= 0 ? bound_pe : current_heap->local_pes().front(); }

int NumPes() { return current_heap->n_pes(); }

// The blocks that `Malloc` has returned. The n-th call of every PE gets the n-th block, and several PEs may live in
// this process.
struct Allocations {
  struct Block {
    size_t offset;
    size_t bytes;
  };
  std::mutex mutex;
  std::vector<Block> blocks;
  std::map<int, size_t> calls;  // by PE
};

Allocations& Allocated() {
  static Allocations allocations;
  return allocations;
}

void* Malloc(size_t bytes) {
  Allocations& allocated = Allocated();
  std::lock_guard<std::mutex> lock(allocated.mutex);
  size_t& call = allocated.calls[MyPe()];
  if (call == allocated.blocks.size()) {
    const size_t offset = current_heap->Allocate(bytes);
    if (offset == SIZE_MAX) return nullptr;
    allocated.blocks.push_back({offset, bytes});
  }
  const Allocations::Block& block = allocated.blocks[call];
  if (block.bytes != bytes) return nullptr;  // the PEs disagree on the size
  ++call;
  return current_heap->base(MyPe()) + block.offset;
}

void Free(void*) {}  // the heap lives as long as the job

void* Ptr(const void* dest, int pe) { return current_heap->Reaches(pe) ? current_heap->Translate(dest, pe) : nullptr; }

void* MulticastPtr(TeamHandle team, const void* address) {
  return team == kTeamWorld ? MulticastAddress(current_heap->OffsetOf(address)) : nullptr;
}

void PutmemOnStream(void* dest, const void* source, size_t bytes, int pe, StreamHandle stream) {
  Command command{Command::Kind::kCopy};
  command.destination = current_heap->Translate(dest, pe);
  command.source = source;
  command.bytes = bytes;
  AsStream(stream).Append(command);
}

void SignalOpOnStream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, StreamHandle stream) {
  Command command{Command::Kind::kSignal};
  command.compare_or_op = static_cast<uint8_t>(sig_op);
  command.word = reinterpret_cast<uint64_t*>(current_heap->Translate(sig_addr, pe));
  command.value = signal;
  command.bell = &current_heap->BellOf(pe);
  AsStream(stream).Append(command);
}

void PutmemSignalOnStream(void* dest, const void* source, size_t bytes, uint64_t* sig_addr, uint64_t signal, int sig_op,
                          int pe, StreamHandle stream) {
  PutmemOnStream(dest, source, bytes, pe, stream);
  SignalOpOnStream(sig_addr, signal, sig_op, pe, stream);
}

void SignalWaitUntilOnStream(uint64_t* sig_addr, int cmp, uint64_t cmp_value, StreamHandle stream) {
  Command command{Command::Kind::kWait};
  command.compare_or_op = static_cast<uint8_t>(cmp);
  command.word = sig_addr;
  command.value = cmp_value;
  AsStream(stream).Append(command);
}

void QuietOnStream(StreamHandle) {}  // puts are complete when their command has run

StreamHandle CreateStream() { return new Stream; }

void DestroyStream(StreamHandle stream) { delete static_cast<Stream*>(stream); }

bool QueryStream(StreamHandle stream) { return AsStream(stream).Advance(); }

void AbandonStream(StreamHandle stream) { AsStream(stream).Abandon(); }

void MemcpyAsync(void* destination, const void* source, size_t bytes, StreamHandle stream) {
  if (destination == source) return;
  Command command{Command::Kind::kCopy};
  command.destination = destination;
  command.source = source;
  command.bytes = bytes;
  AsStream(stream).Append(command);
}

void MemsetAsync(void* destination, int value, size_t bytes, StreamHandle stream) {
  Command command{Command::Kind::kFill};
  command.compare_or_op = static_cast<uint8_t>(value);
  command.destination = destination;
  command.bytes = bytes;
  AsStream(stream).Append(command);
}

void LaunchHostFunc(StreamHandle stream, void (*function)(void*), void* argument) {
  Command command{Command::Kind::kHostFunc};
  command.function = function;
  command.destination = argument;
  AsStream(stream).Append(command);
}

}  // namespace

bool SetHeap(shm::Heap* heap) {
  current_heap = heap;
  {
    Allocations& allocated = Allocated();
    std::lock_guard<std::mutex> lock(allocated.mutex);
    allocated.blocks.clear();
    allocated.calls.clear();
  }
  SetMulticastHeap(heap);
  epochs.clear();
  barrier_words = heap == nullptr ? 0 : heap->Allocate(sizeof(uint64_t) * static_cast<size_t>(heap->n_pes()));
  return barrier_words != SIZE_MAX;
}

void BarrierOnStream(StreamHandle stream) {
  uint64_t epoch = 0;
  {
    std::lock_guard<std::mutex> lock(epochs_mutex);
    epoch = ++epochs[MyPe()];
  }
  auto* const words = reinterpret_cast<uint64_t*>(current_heap->base(MyPe()) + barrier_words);
  for (int pe = 0; pe < NumPes(); ++pe) SignalOpOnStream(words + MyPe(), epoch, kSignalSet, pe, stream);
  for (int pe = 0; pe < NumPes(); ++pe) SignalWaitUntilOnStream(words + pe, kCmpGe, epoch, stream);
}

shm::Heap* CurrentHeap() { return current_heap; }

void BindPe(int pe) { bound_pe = pe; }

const HostApi& Api() {
  static const HostApi api = [] {
    HostApi table{};
    table.shmem.my_pe = MyPe;
    table.shmem.n_pes = NumPes;
    table.shmem.malloc = Malloc;
    table.shmem.free = Free;
    table.shmem.ptr = Ptr;
    table.shmem.mc_ptr = MulticastPtr;
    table.shmem.putmem_on_stream = PutmemOnStream;
    table.shmem.putmem_signal_on_stream = PutmemSignalOnStream;
    table.shmem.signal_op_on_stream = SignalOpOnStream;
    table.shmem.signal_wait_until_on_stream = SignalWaitUntilOnStream;
    table.shmem.quiet_on_stream = QuietOnStream;
    table.stream.create = CreateStream;
    table.stream.destroy = DestroyStream;
    table.stream.query = QueryStream;
    table.stream.abandon = AbandonStream;
    table.stream.memcpy_async = MemcpyAsync;
    table.stream.memset_async = MemsetAsync;
    table.stream.launch_host_func = LaunchHostFunc;
    return table;
  }();
  return api;
}

Status Synchronize(Stream& stream, std::chrono::steady_clock::time_point deadline, std::chrono::microseconds spin) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLongestSleep = std::chrono::milliseconds(100);
  Clock::time_point spin_until = Clock::now() + spin;
  while (!stream.Advance()) {
    if (Clock::now() < spin_until) {
      shm::CpuRelax();
      continue;
    }
    shm::Doorbell& bell = current_heap->OwnBell();
    const uint32_t ticket = shm::PrepareSleep(bell);
    const bool done = stream.Advance();
    if (!done) shm::Sleep(bell, ticket, kLongestSleep);
    shm::FinishSleep(bell);
    if (done) return {};
    XLA_SHMEM_RETURN_IF_ERROR(current_heap->JobStatus());
    if (Clock::now() > deadline) {
      const Command& wait = *stream.BlockedOn();
      return Status::Error("a signal wait passed its deadline: expected " + std::to_string(wait.value) + ", seen " +
                           std::to_string(LoadSignal(wait.word)));
    }
    spin_until = Clock::now() + spin;
  }
  return {};
}

}  // namespace xla_shmem::nvshmem_double
