// Permutes whose start sends and whose done receives.
#include "xla_patch/thunks/gpu/split_permutes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/thunks/gpu/gpu_job.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;
using gpu::SplitLayout;

constexpr char kName[] = "module/op";
constexpr size_t kBytes = 20000;
constexpr uint32_t kOwnTag = 0x51170000;  // of names that no other test has

GpuJobOptions Options(int n_pes = 2) {
  GpuJobOptions options;
  options.n_pes = n_pes;
  options.permute = GpuPermute::kKernel;
  options.split_bytes = 4 << 20;
  return options;
}

// What a PE does, by the number of the permute: its start, or its done.
struct Step {
  bool starts;
  int permute;
};

// Permutes of PEs that all run the same steps. In permute p PE i sends to PE `target_of(p, i)`.
class Program {
 public:
  // Permutes of several sizes if `seed` is not 0.
  Program(GpuJob& job, int permutes, unsigned seed = 0)
      : job_(job), permutes_(permutes), memory_(job.n_pes() * permutes) {
    std::minstd_rand random(seed);
    for (int permute = 0; permute < permutes; ++permute) {
      const size_t bytes = seed == 0 ? kBytes : random() % (kBytes << random() % 4);
      for (int pe = 0; pe < job.n_pes(); ++pe) {
        At(pe, permute).operand.assign(bytes, static_cast<char>(1 + permutes * pe + permute));
        At(pe, permute).result.assign(bytes, '-');
      }
    }
  }

  template <typename TargetOf>
  void Enqueue(int pe, const std::vector<Step>& steps, TargetOf target_of, gpu::CudaStream stream) {
    OnDevice(job_.pe(pe), [&] {
      for (const Step& step : steps) {
        const gpu::TransferKey key{1, step.permute};
        if (!step.starts) {
          CHECK(job_.pe(pe).transfers->Finish(key, kName, stream).message() == "");
          continue;
        }
        PermuteArguments permute{kName,
                                 kTag + static_cast<uint32_t>(step.permute),
                                 -1,
                                 target_of(step.permute, pe),
                                 {{At(pe, step.permute).operand.data()},
                                  {At(pe, step.permute).result.data()},
                                  {At(pe, step.permute).operand.size()}}};
        for (int other = 0; other < job_.n_pes(); ++other) {
          if (target_of(step.permute, other) == pe) permute.source = other;
        }
        CHECK(job_.pe(pe).transfers->StartPermute(key, permute, stream).message() == "");
      }
      return 0;
    });
  }

  template <typename TargetOf>
  void EnqueueAll(const std::vector<Step>& steps, TargetOf target_of) {
    std::vector<std::thread> hosts;
    for (int pe = 0; pe < job_.n_pes(); ++pe) {
      hosts.emplace_back([&, pe] { Enqueue(pe, steps, target_of, job_.pe(pe).compute); });
    }
    for (std::thread& host : hosts) host.join();
  }

  template <typename TargetOf>
  void Check(TargetOf target_of) {
    for (int permute = 0; permute < permutes_; ++permute) {
      for (int pe = 0; pe < job_.n_pes(); ++pe) {
        CAPTURE(permute);
        CAPTURE(pe);
        std::vector<char> expected(At(pe, permute).operand.size(), 0);
        for (int other = 0; other < job_.n_pes(); ++other) {
          if (target_of(permute, other) == pe) expected = At(other, permute).operand;
        }
        CHECK(At(pe, permute).result == expected);
      }
    }
  }

  // Kernels of lanes, which carry what has no slot.
  size_t Others() const {
    size_t launches = 0;
    for (int pe = 0; pe < job_.n_pes(); ++pe) {
      launches += job_.pe(pe).cuda->launches("move") + job_.pe(pe).cuda->launches("move_packets");
    }
    return launches;
  }

 private:
  struct Memory {
    std::vector<char> operand, result;
  };
  Memory& At(int pe, int permute) { return memory_[pe * permutes_ + permute]; }

  GpuJob& job_;
  const int permutes_;
  std::vector<Memory> memory_;
};

int NextOfTwo(int /*permute*/, int pe) { return 1 - pe; }

// Starts of all permutes, then their dones in this order.
std::vector<Step> StartsFirst(const std::vector<int>& dones) {
  std::vector<Step> steps;
  for (int permute = 0; permute < static_cast<int>(dones.size()); ++permute) steps.push_back({true, permute});
  for (const int permute : dones) steps.push_back({false, permute});
  return steps;
}

TEST_CASE("Dones may come in any order, and messages beyond the slots go through lanes") {
  // The first four of seven have slots. If the others waited for one, reversed dones would never come.
  for (const std::vector<int>& dones :
       {std::vector<int>{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {4, 0, 6, 1, 5, 2, 3}}) {
    GpuJob job(Options());
    Program program(job, 7);
    program.EnqueueAll(StartsFirst(dones), NextOfTwo);
    REQUIRE(job.Synchronize());
    program.Check(NextOfTwo);
    CHECK(program.Others() == 2 * 3);
    for (int pe = 0; pe < 2; ++pe) CHECK(job.pe(pe).cuda->launches("send_message") == 4);
  }
}

TEST_CASE("A message has a slot again once the done of the one before has been enqueued") {
  GpuJob job(Options());
  Program program(job, 9);
  // The slot of message 0 is free for message 4, but that of message 1 is not for message 5.
  std::vector<Step> steps;
  for (int permute = 0; permute < 4; ++permute) steps.push_back({true, permute});
  for (const Step& step : {Step{false, 0},
                           {true, 4},
                           {true, 5},
                           {false, 3},
                           {false, 2},
                           {false, 1},
                           {true, 6},
                           {true, 7},
                           {true, 8},
                           {false, 8},
                           {false, 7},
                           {false, 6},
                           {false, 5},
                           {false, 4}}) {
    steps.push_back(step);
  }
  program.EnqueueAll(steps, NextOfTwo);
  REQUIRE(job.Synchronize());
  program.Check(NextOfTwo);
  CHECK(program.Others() == 2);
}

TEST_CASE("Random programs of split permutes among four PEs, with results of each") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::minstd_rand random(seed);
    constexpr int kPermutes = 24, kPes = 4;
    // By permute and PE.
    std::vector<std::vector<int>> targets(kPermutes, std::vector<int>(kPes));
    for (std::vector<int>& of_permute : targets) {
      for (int pe = 0; pe < kPes; ++pe) of_permute[pe] = pe;
      std::shuffle(of_permute.begin(), of_permute.end(), random);
      for (int& target : of_permute) target = random() % 4 == 0 ? -1 : target;
    }
    const auto target_of = [&](int permute, int pe) { return targets[permute][pe]; };
    std::vector<Step> steps;
    std::vector<int> started;
    for (int permute = 0; permute < kPermutes || !started.empty();) {
      if (permute < kPermutes && (started.empty() || random() % 3 != 0)) {
        started.push_back(permute);
        steps.push_back({true, permute++});
      } else {
        const size_t which = random() % started.size();
        steps.push_back({false, started[which]});
        started.erase(started.begin() + static_cast<ptrdiff_t>(which));
      }
    }
    GpuJob job(Options(kPes));
    Program program(job, kPermutes, seed);
    program.EnqueueAll(steps, target_of);
    REQUIRE(job.Synchronize());
    program.Check(target_of);
  }
}

TEST_CASE("A PE that only sends is not more than the slots ahead of its target") {
  GpuJob job(Options());
  Program program(job, 8);
  const auto one_way = [](int /*permute*/, int pe) { return pe == 0 ? 1 : -1; };
  std::vector<Step> steps;
  for (int permute = 0; permute < 8; ++permute) {
    steps.push_back({true, permute});
    steps.push_back({false, permute});
  }
  job.pe(1).cuda->Pause(true);
  program.EnqueueAll(steps, one_way);
  CHECK_FALSE(job.pe(0).cuda->Synchronize(0.5));
  job.pe(1).cuda->Pause(false);
  REQUIRE(job.Synchronize());
  program.Check(one_way);
}

TEST_CASE("Starts on several streams, more of them than there are words of progress, and a done on another one") {
  GpuJob job(Options());
  constexpr int kPermutes = SplitLayout::kStreams + 2;
  Program program(job, kPermutes);
  for (int permute = 0; permute < kPermutes; ++permute) {
    for (int pe = 0; pe < 2; ++pe) {
      const gpu::CudaStream first = job.pe(pe).cuda->CreateStream(), second = job.pe(pe).cuda->CreateStream();
      program.Enqueue(pe, {{true, permute}}, NextOfTwo, first);
      program.Enqueue(pe, {{false, permute}}, NextOfTwo, second);
    }
    REQUIRE(job.Synchronize());
  }
  program.Check(NextOfTwo);
  CHECK(program.Others() == 0);
}

TEST_CASE("A permute that fits into no slot, or has too many buffers, goes through lanes") {
  GpuJob job(Options());
  const auto fits = [&](const std::vector<size_t>& bytes) {
    gpu::Buffers buffers;
    buffers.bytes = bytes;
    return job.pe(0).splits->Fits(buffers);
  };
  const size_t slot = SplitLayout::Create(2, 4 << 20, 32).slot_bytes();
  CHECK(fits({slot}));
  CHECK_FALSE(fits({slot + 1}));
  CHECK_FALSE(fits({slot - 16, 1, 1}));
  CHECK(fits(std::vector<size_t>(gpu::kMaxParts, 1)));
  CHECK_FALSE(fits(std::vector<size_t>(gpu::kMaxParts + 1, 1)));
}

// PE 1 starts another permute, or none.
std::string ErrorOfFirst(bool other_comes) {
  GpuJobOptions options = Options();
  options.deadline = std::chrono::milliseconds(other_comes ? 60000 : 500);
  GpuJob job(options);
  std::vector<char> operand(kBytes, 'a'), results(2 * kBytes, '-');
  for (int pe = 0; pe < (other_comes ? 2 : 1); ++pe) {
    const PermuteArguments permute{pe == 0 ? kName : "module/other",
                                   kOwnTag + static_cast<uint32_t>(pe),
                                   1 - pe,
                                   1 - pe,
                                   {{operand.data()}, {results.data() + pe * kBytes}, {kBytes}}};
    OnDevice(job.pe(pe), [&] {
      CHECK(job.pe(pe).transfers->StartPermute({1, 1}, permute, job.pe(pe).compute).message() == "");
      CHECK(job.pe(pe).transfers->Finish({1, 1}, kName, job.pe(pe).compute).message() == "");
      return 0;
    });
  }
  for (int pe = 0; pe < 2; ++pe) REQUIRE(job.pe(pe).cuda->Synchronize());
  CHECK(std::count(results.begin(), results.end(), '-') == static_cast<ptrdiff_t>(results.size()));
  return job.pe(0).watchdog->Check().message();
}

TEST_CASE("A source that never comes ends the done with an error that names it") {
  CHECK(ErrorOfFirst(/*other_comes=*/false) ==
        "module/op on PE 0 has not finished; it waits for PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)");
}

TEST_CASE("A message of another permute is not taken, and both names are said before the deadline") {
  const std::string error = ErrorOfFirst(/*other_comes=*/true);
  CHECK(error ==
        "module/op on PE 0: PE 1 sent a message of another collective, module/other: the processes run different "
        "programs, or start them in another order");
}

TEST_CASE("Slots hold 1.35 MB with the recommended memory, and less with less") {
  for (const int n_pes : {2, 8, 72}) {
    CAPTURE(n_pes);
    const size_t recommended = SplitLayout::RecommendedBytes(n_pes);
    const SplitLayout whole = SplitLayout::Create(n_pes, recommended, 32);
    CHECK(whole.bytes() == recommended);
    CHECK(whole.slot_bytes() == SplitLayout::kMaxBytes / 256 * 256);
    const SplitLayout less = SplitLayout::Create(n_pes, recommended - 1, 32);
    CHECK(less.bytes() < recommended);
    CHECK(less.slot_bytes() == whole.slot_bytes() - 256);
    CHECK(SplitLayout::Create(n_pes, 0, 32).slot_bytes() == 0);
  }
  CHECK(SplitLayout::RecommendedBytes(8) <= size_t{38} << 20);
  CHECK(SplitLayout::RecommendedBytes(72) <= size_t{192} << 20);
}

}  // namespace
}  // namespace xla_shmem::testing
