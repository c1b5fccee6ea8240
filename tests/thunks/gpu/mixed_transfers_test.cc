#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::testing {
namespace {

// One operation of a random program.
struct Step {
  int kind;   // 0: permute, 1: permute in place, 2: all-reduce, 3: permute in one call, 4: all-reduce in one call
  int shift;  // of the permute's ring
  size_t elements;
};

// Large operations have `large` elements or a few more.
std::vector<Step> RandomProgram(unsigned seed, int n_pes, size_t large) {
  std::mt19937 random(seed);
  std::vector<Step> program;
  for (int i = 0; i < 24; ++i) {
    const size_t elements = random() % 3 == 0 ? large + random() % 60000 : 1 + random() % 3000;
    program.push_back({static_cast<int>(random() % 5), 1 + static_cast<int>(random() % (n_pes - 1)), elements});
  }
  return program;
}

int32_t Value(int pe, size_t step, size_t element) {
  return static_cast<int32_t>(pe * 1000003 + step * 7919 + element);
}

int32_t Expected(const Step& step, size_t number, int pe, int n_pes, size_t element) {
  if (step.kind != 2 && step.kind != 4) return Value((pe + n_pes - step.shift) % n_pes, number, element);
  int32_t sum = 0;
  for (int member = 0; member < n_pes; ++member) sum += Value(member, number, element);
  return sum;
}

// Permutes by copies, and large operations of other sizes than the slots; or small permutes by the kernel alone, and
// large ones by copies.
struct Way {
  GpuPermute permute;
  size_t large;
};
Way WayOf(unsigned seed) {
  if (seed % 2 == 0) return {GpuPermute::kCopies, 40000};
  return {GpuPermute::kAuto, gpu::kBytesOfGap / 4 - 30000};
}

// Starts everything, with whole operations in between, and joins the rest at the end.
void RunProgram(GpuJob& job, const std::vector<Step>& program) {
  const int n = job.n_pes();
  std::vector<std::vector<std::vector<int32_t>>> operands(n), results(n);
  for (int pe = 0; pe < n; ++pe) {
    for (size_t number = 0; number < program.size(); ++number) {
      std::vector<int32_t>& values = operands[pe].emplace_back(program[number].elements);
      for (size_t i = 0; i < values.size(); ++i) values[i] = Value(pe, number, i);
      results[pe].emplace_back(program[number].elements, -1);
    }
  }
  std::vector<int> group(n);
  for (int pe = 0; pe < n; ++pe) group[pe] = pe;
  std::vector<std::thread> hosts;
  for (int pe = 0; pe < n; ++pe) {
    hosts.emplace_back([&, pe] {
      GpuJob::Pe& mine = job.pe(pe);
      const gpu::ScopedContext context(*mine.device);
      for (size_t number = 0; number < program.size(); ++number) {
        const Step& step = program[number];
        const auto tag = static_cast<uint32_t>(kTag + number);
        auto& result = step.kind == 1 ? operands[pe][number] : results[pe][number];
        const gpu::Buffers buffers{{reinterpret_cast<char*>(operands[pe][number].data())},
                                   {reinterpret_cast<char*>(result.data())},
                                   {step.elements * 4}};
        const gpu::PermuteArguments permute{"p", tag, (pe + n - step.shift) % n, (pe + step.shift) % n, buffers};
        gpu::GroupArguments sum;
        sum.name = "s";
        sum.tag = tag;
        sum.group = group;
        sum.types = {ElementType::kS32};
        sum.buffers = buffers;
        Status status;
        if (step.kind <= 1) status = mine.transfers->StartPermute({number, 1}, permute, mine.compute);
        if (step.kind == 2) status = mine.transfers->StartGroup({number, 1}, sum, mine.compute);
        if (step.kind == 3) status = mine.transfers->RunPermute(permute, mine.compute);
        if (step.kind == 4) status = mine.transfers->RunGroup(sum, mine.compute);
        CHECK(status.message() == "");
      }
      for (size_t number = 0; number < program.size(); ++number) {
        if (program[number].kind <= 2) CHECK(mine.transfers->Finish({number, 1}, "f", mine.compute).message() == "");
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < n; ++pe) {
    for (size_t number = 0; number < program.size(); ++number) {
      const std::vector<int32_t>& seen = program[number].kind == 1 ? operands[pe][number] : results[pe][number];
      size_t wrong = 0;
      for (size_t i = 0; i < seen.size(); ++i) wrong += seen[i] != Expected(program[number], number, pe, n, i);
      CAPTURE(number);
      CAPTURE(program[number].kind);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("Operations of all kinds may be in flight at once, in random programs") {
  for (unsigned seed = 0; seed < 5; ++seed) {
    GpuJobOptions options;
    options.n_pes = 2 + static_cast<int>(seed % 3);
    options.puts = seed % 2 == 0 ? gpu::Puts::kDriver : gpu::Puts::kNvshmem;
    const Way way = WayOf(seed / 2);
    options.permute = way.permute;
    GpuJob job(options);
    CAPTURE(seed);
    RunProgram(job, RandomProgram(seed, options.n_pes, way.large));
  }
}

// A copied signal leaves from a word that messages to all peers use whose slots have one number. The pairs have sent
// different numbers of messages, so that these take turns between the send streams differently.
TEST_CASE("Messages of one slot number to several peers are signalled one after the other") {
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::mt19937 random(seed);
    GpuJobOptions options;
    options.n_pes = 3;
    options.signals = gpu::Signals::kCopies;
    GpuJob job(options);
    std::vector<Step> program;
    for (int i = 0; i < 60; ++i) {
      const bool has_two_chunks = random() % 2 == 0;
      program.push_back(
          {0, 1 + static_cast<int>(random() % 2), has_two_chunks ? job.layout().slot_bytes() / 4 + 100 : 10});
    }
    CAPTURE(seed);
    RunProgram(job, program);
  }
}

// Streams share hardware queues, so a wait may hold up commands of other streams. No put may be behind a wait for
// something that depends on it.
TEST_CASE("Operations of all kinds end although all streams of a GPU share one hardware queue") {
  for (unsigned seed = 0; seed < 9; ++seed) {
    GpuJobOptions options;
    options.n_pes = 2 + static_cast<int>(seed % 3);
    options.one_queue = true;
    options.puts = seed < 5 ? gpu::Puts::kDriver : gpu::Puts::kNvshmem;
    options.signals = seed % 2 == 0 ? gpu::Signals::kWrites : gpu::Signals::kCopies;
    const Way way = WayOf(seed / 2);
    options.permute = way.permute;
    GpuJob job(options);
    CAPTURE(seed);
    RunProgram(job, RandomProgram(seed + 100, options.n_pes, way.large));
  }
}

}  // namespace
}  // namespace xla_shmem::testing
