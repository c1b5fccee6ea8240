#include "xla_patch/thunks/gpu/timeline.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/thunks/gpu/gpu_job.h"

namespace xla_shmem::testing {
namespace {

using gpu::GroupArguments;
using gpu::PermuteArguments;

struct Seen : gpu::Follower {
  void Reached() override { reached = true; }
  void Ended(gpu::Track at, const gpu::DeviceTimes& when) override {
    track = at;
    times = when;
    ended = true;
  }
  void Failed() override { failed = true; }

  std::atomic<bool> reached{false}, ended{false}, failed{false};
  gpu::Track track{};
  gpu::DeviceTimes times;
};

bool SoonTrue(const std::atomic<bool>& flag) {
  for (int i = 0; i < 5000 && !flag; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return flag;
}

// An all-reduce of two PEs, each of which calls Start when told.
struct TwoPes {
  explicit TwoPes(GpuJobOptions options) : job((options.n_pes = 2, options)) {}

  GroupArguments Group(int pe) {
    GroupArguments group;
    group.name = "module/op";
    group.tag = kTag;
    group.group = {0, 1};
    group.types = {ElementType::kF32};
    group.buffers = {
        {reinterpret_cast<char*>(operands[pe].data())}, {reinterpret_cast<char*>(results[pe].data())}, {40}};
    group.follower = seen[pe];
    return group;
  }
  void Start(int pe) {
    OnDevice(job.pe(pe),
             [&] { CHECK(job.pe(pe).transfers->StartGroup({1, 1}, Group(pe), job.pe(pe).compute).message() == ""); });
  }
  void Run(int pe) {
    OnDevice(job.pe(pe), [&] { CHECK(job.pe(pe).transfers->RunGroup(Group(pe), job.pe(pe).compute).message() == ""); });
  }
  auto PermuteBuffers(int pe) {  // a group may be under way, so the results have their own memory
    GroupArguments group = Group(pe);
    group.buffers.results = {reinterpret_cast<char*>(permuted[pe].data())};
    return group.buffers;
  }
  void StartPermute(int pe) {
    PermuteArguments permute{"module/permute", kTag, 1 - pe, 1 - pe, PermuteBuffers(pe), seen[pe]};
    OnDevice(job.pe(pe),
             [&] { CHECK(job.pe(pe).transfers->StartPermute({2, 1}, permute, job.pe(pe).compute).message() == ""); });
  }

  void RunPermute(int pe) {
    PermuteArguments permute{"module/permute", kTag, 1 - pe, 1 - pe, PermuteBuffers(pe), seen[pe]};
    OnDevice(job.pe(pe), [&] { CHECK(job.pe(pe).transfers->RunPermute(permute, job.pe(pe).compute).message() == ""); });
  }

  std::vector<float> operands[2] = {std::vector<float>(10, 1), std::vector<float>(10, 2)};
  std::vector<float> results[2] = {std::vector<float>(10), std::vector<float>(10)};
  std::vector<float> permuted[2] = {std::vector<float>(10), std::vector<float>(10)};
  std::shared_ptr<Seen> seen[2] = {std::make_shared<Seen>(), std::make_shared<Seen>()};
  GpuJob job;  // ends before its buffers: kernels may run until then
};

TEST_CASE("A collective is reached before it ends, and ends when its peer comes") {
  using Method = void (TwoPes::*)(int);
  const auto check = [](Method method, GpuPermute permute) {
    for (const bool timed : {false, true}) {
      CAPTURE(timed);
      GpuJobOptions options;
      options.permute = permute;
      options.timed = timed;
      TwoPes pes(options);
      (pes.*method)(0);
      CHECK(SoonTrue(pes.seen[0]->reached));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK_FALSE(pes.seen[0]->ended);
      (pes.*method)(1);
      REQUIRE(pes.job.Synchronize());
      for (int pe = 0; pe < 2; ++pe) {
        CHECK(SoonTrue(pes.seen[pe]->ended));
        CHECK((pes.seen[pe]->times.begun_ns > 0) == timed);
        CHECK(pes.seen[pe]->times.ended_ns > pes.seen[pe]->times.begun_ns);
      }
      // PE 0 has waited for PE 1.
      if (timed) CHECK(pes.seen[0]->times.ended_ns - pes.seen[0]->times.begun_ns > 20'000'000);
      pes.job.pe(0).timeline->Settle();
    }
  };
  for (const Method method : {&TwoPes::Start, &TwoPes::Run, &TwoPes::StartPermute, &TwoPes::RunPermute}) {
    check(method, GpuPermute::kCopies);
  }
  for (const Method method : {&TwoPes::StartPermute, &TwoPes::RunPermute}) check(method, GpuPermute::kKernel);
}

TEST_CASE("A collective that comes when the thread sleeps wakes it") {
  TwoPes pes({});
  // The thread polls for 50 ms before it sleeps.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (int pe = 0; pe < 2; ++pe) pes.Run(pe);
  REQUIRE(pes.job.Synchronize());
  for (int pe = 0; pe < 2; ++pe) CHECK(SoonTrue(pes.seen[pe]->ended));
}

TEST_CASE("A permute by the kernel is on the track of the collectives of groups") {
  GpuJobOptions options;
  options.permute = GpuPermute::kKernel;
  TwoPes pes(options);
  for (int pe = 0; pe < 2; ++pe) pes.StartPermute(pe);
  REQUIRE(pes.job.Synchronize());
  CHECK(SoonTrue(pes.seen[0]->ended));
  CHECK(pes.seen[0]->track == gpu::Track::kGroups);
}

TEST_CASE("Each form has a track of its own, and one does not hold up the report of another") {
  TwoPes pes({});
  auto late = std::make_shared<Seen>();
  std::swap(pes.seen[0], late);
  pes.Start(0);  // waits for PE 1
  std::swap(pes.seen[0], late);
  pes.StartPermute(0);
  pes.StartPermute(1);
  CHECK(SoonTrue(pes.seen[0]->ended));
  CHECK(pes.seen[0]->track == gpu::Track::kPermutes);
  CHECK_FALSE(late->ended);
  pes.Start(1);
  CHECK(SoonTrue(late->ended));
  CHECK(late->track == gpu::Track::kGroups);
  REQUIRE(pes.job.Synchronize());
}

TEST_CASE("Graphs count the permutes that they run, and follow none") {
  for (const bool timed : {false, true}) {
    GpuJobOptions options;
    options.timed = timed;
    TwoPes pes(options);
    for (int pe = 0; pe < 2; ++pe) {
      GpuJob::Pe& mine = pes.job.pe(pe);
      mine.cuda->BeginCapture(mine.compute);
      pes.RunPermute(pe);
      mine.cuda->EndCapture(mine.compute);
      for (int launch = 0; launch < 5; ++launch) mine.cuda->LaunchGraph(mine.compute);
    }
    REQUIRE(pes.job.Synchronize());
    for (int pe = 0; pe < 2; ++pe) {
      CHECK(pes.job.pe(pe).transfers->in_graphs().captured == 1);
      CHECK(pes.job.pe(pe).transfers->in_graphs().run == 5);
      CHECK_FALSE(pes.seen[pe]->reached);
    }
  }
}

TEST_CASE("A collective that is added while another one is looked at is seen too") {
  GpuJob job({});
  gpu::Timeline& timeline = *job.pe(0).timeline;
  const auto done = [] { return gpu::Device::Progress::kDone; };
  std::atomic<bool> is_looking{false}, is_added{false};
  const auto first = std::make_shared<Seen>(), second = std::make_shared<Seen>();
  timeline.Follow(
      gpu::Track::kInLine, first,
      [&] {
        is_looking = true;
        SoonTrue(is_added);
        return gpu::Device::Progress::kDone;
      },
      done);
  REQUIRE(SoonTrue(is_looking));
  timeline.Follow(gpu::Track::kPermutes, second, done, done);  // a track that was empty a moment ago
  is_added = true;
  CHECK(SoonTrue(first->ended));
  CHECK(SoonTrue(second->ended));
}

TEST_CASE("What cannot end fails") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(100);
  TwoPes pes(options);
  pes.Start(0);
  CHECK(SoonTrue(pes.seen[0]->failed));
  CHECK(pes.seen[0]->reached);
  CHECK_FALSE(pes.seen[0]->ended);
}

}  // namespace
}  // namespace xla_shmem::testing
