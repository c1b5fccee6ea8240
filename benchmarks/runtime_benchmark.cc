// The CPU runtime alone: collectives between forked processes, without JAX and XLA.
//
// Usage: runtime_benchmark [-n PROCESSES] [-b BYTES] [-e BYTES] [-f FACTOR] [-r ROUNDS] [-s auto|always|off]
//                          [-o OP[,OP...]]
//
// BYTES are those of an operand (all-gather: of the result). In every round each operation runs at each size,
// repeatedly for some milliseconds. A round gives the mean time of one run on rank 0; the table shows median and
// quartiles of the rounds in microseconds. "memcpy" is the time of one copy of the operand, by all processes at the
// same time. The machine may be shared, so compare only times of one run. mpi_benchmark.cc prints the same table for
// MPI.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/samples.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/shm/segment.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/cpu/local_pes.h"

namespace xla_shmem {
namespace {

[[noreturn]] void ExitWith(const Status& status) {
  fprintf(stderr, "%s\n", status.message().c_str());
  _exit(1);
}

template <typename T>
T ValueOf(Result<T> result) {
  if (!result.ok()) ExitWith(result.status());
  return *std::move(result);
}

CollectiveOp CollectiveOpOf(bench::Op op) {
  switch (op) {
    case bench::Op::kMemcpy:
      break;
    case bench::Op::kPermute:
      return CollectiveOp::kCollectivePermute;
    case bench::Op::kAllReduce:
      return CollectiveOp::kAllReduce;
    case bench::Op::kAllGather:
      return CollectiveOp::kAllGather;
    case bench::Op::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    case bench::Op::kAllToAll:
      return CollectiveOp::kAllToAll;
  }
  ExitWith(Status::Error("no collective"));
}

// Binds each process to its own core, if there are enough cores, like mpirun.
void Bind(int rank, int ranks) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < ranks) return;
  int left = rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || left-- != 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

class Rank {
 public:
  Rank(const shm::JobKey& job, bench::Barrier* barrier, int rank, int ranks, shm::SingleCopy single_copy)
      : rank_(rank), ranks_(ranks) {
    constexpr size_t kHeapBytes = 64 << 20;
    std::vector<std::unique_ptr<shm::Segment>> segments(ranks);
    segments[rank] = ValueOf(shm::Segment::Create(job, rank, kHeapBytes));
    barrier->Wait();
    std::vector<int> process_of_pe(ranks);
    std::iota(process_of_pe.begin(), process_of_pe.end(), 0);
    for (int other = 0; other < ranks; ++other) {
      if (other != rank) segments[other] = ValueOf(shm::Segment::Attach(job, other));
      segments[other]->NoteAttached(ranks);
    }
    heap_ = ValueOf(shm::Heap::Create(std::move(segments), process_of_pe, rank));
    pes_ = ValueOf(LocalPes::Create({single_copy}, heap_.get()));
    engine_ =
        std::make_unique<shm::ProgressEngine>(heap_.get(), std::chrono::microseconds(100), std::chrono::seconds(60));
    barrier->Wait();
  }

  // Whether this rank may read large messages out of the memory of the next.
  bool ReadsNext() const { return pes_->context(rank_)->cross_memory_reader->Reads((rank_ + 1) % ranks_); }

  void Run(bench::Op op, char* operand, char* result, size_t bytes) {
    const MessageKey key{static_cast<uint64_t>(op) + 1, ++executions_};
    Finish(Begin(op, key, operand, result, bytes));
  }

 private:
  std::unique_ptr<Operation> Begin(bench::Op op, const MessageKey& key, char* operand, char* result, size_t bytes) {
    CollectiveArguments arguments;
    arguments.op = CollectiveOpOf(op);
    arguments.key = key;
    arguments.name = "bench";
    arguments.bytes = {bytes};
    if (UsesPairs(arguments.op)) {
      arguments.source = (rank_ + ranks_ - 1) % ranks_;
      arguments.target = (rank_ + 1) % ranks_;
    } else {
      arguments.group.resize(ranks_);
      std::iota(arguments.group.begin(), arguments.group.end(), 0);
    }
    arguments.types = {ElementType::kF32};
    const size_t part = bytes / ranks_ / 4 * 4;
    if (arguments.op != CollectiveOp::kAllReduce && !UsesPairs(arguments.op)) arguments.bytes = {part};
    const int buffers = arguments.op == CollectiveOp::kAllToAll ? ranks_ : 1;
    for (int buffer = 0; buffer < buffers; ++buffer) {
      arguments.operands.push_back(operand + buffer * part);
      arguments.results.push_back(result + buffer * part);
    }
    return MakeMessageOperation(pes_->context(rank_), std::move(arguments));
  }

  void Finish(std::unique_ptr<Operation> operation) {
    if (ValueOf(engine_->TryInline(*operation))) return;
    std::atomic<bool> done{false};
    engine_->Submit(std::move(operation), [&](const Status& status) {
      if (!status.ok()) ExitWith(status);
      done.store(true, std::memory_order_release);
    });
    while (!done.load(std::memory_order_acquire)) sched_yield();
  }

  const int rank_, ranks_;
  std::unique_ptr<shm::Heap> heap_;
  std::unique_ptr<LocalPes> pes_;
  std::unique_ptr<shm::ProgressEngine> engine_;
  uint64_t executions_ = 0;
};

int Main(int argc, char** argv) {
  const bench::Settings settings = bench::Read(argc, argv);
  std::random_device random;
  const shm::JobKey job{{(uint64_t{random()} << 32) | random(), (uint64_t{random()} << 32) | random()}};
  auto* barrier = bench::Barrier::Create(settings.processes);
  std::vector<pid_t> children;
  for (int rank = 0; rank < settings.processes; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    Bind(rank, settings.processes);
    const auto single_copy = settings.single_copy == "off"      ? shm::SingleCopy::kOff
                             : settings.single_copy == "always" ? shm::SingleCopy::kAlways
                                                                : shm::SingleCopy::kAuto;
    Rank self(job, barrier, rank, settings.processes, single_copy);
    if (rank == 0) printf("# cross-memory reads: %s\n", self.ReadsNext() ? "permitted" : "no");
    bench::Measure(
        settings, rank, [&] { barrier->Wait(); },
        [&](bench::Op op, char* operand, char* result, size_t bytes) { self.Run(op, operand, result, bytes); });
    fflush(stdout);
    _exit(0);
  }
  int failures = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failures += status != 0;
  }
  return failures != 0;
}

}  // namespace
}  // namespace xla_shmem

int main(int argc, char** argv) { return xla_shmem::Main(argc, argv); }
