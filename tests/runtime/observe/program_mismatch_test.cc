#include "xla_patch/runtime/observe/program_mismatch.h"

#include <memory>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "tests/runtime/observe/temporary_directory.h"

namespace xla_shmem::observe {
namespace {

const std::vector<int> kProcesses = {0, 1, 2};

// Three processes with one PE each, of which process 0 asks.
class Job {
 public:
  Job() {
    for (const int process : kProcesses) {
      recorders_.push_back(*FlightRecorder::Create(directory_.path(), process, kProcesses, {process}));
    }
  }

  uint32_t Load(int process, uint64_t operation, const std::string& name, std::vector<int> group = {0, 1}) {
    return recorders_[process]->AddSite({operation, "all-reduce", name, false, {std::move(group)}});
  }

  void Run(int process, uint32_t site, State state) {
    uint64_t sequence = 0;
    Entry* entry = recorders_[process]->Begin(process, site, 0, 64, 1, &sequence);
    FlightRecorder::Set(entry, sequence, state, 2);
  }

  std::string Ask(uint64_t operation, const std::string& name,
                  MismatchScope scope = MismatchScope::kAllPrograms) const {
    return DescribeProgramMismatch(directory_.path(), kProcesses, 0, 0,
                                   {operation, "all-reduce", name, false, {{0, 1}, {2}}}, scope);
  }

 private:
  const TemporaryDirectory directory_;
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;
};

TEST_CASE("a peer in a collective of its own program is named, with that collective") {
  Job job;
  job.Load(0, 7, "jit_f/a");
  job.Run(1, job.Load(1, 8, "jit_g/b"), State::kWaiting);
  CHECK(job.Ask(7, "jit_f/a") ==
        "process 1 (PE 1) is in all-reduce jit_g/b (64 bytes) of another program; all processes must run the same "
        "programs");
}

TEST_CASE("a copy that differs is told from another program") {
  Job job;
  job.Load(0, 7, "jit_f/a");
  job.Run(1, job.Load(1, 8, "jit_f/b"), State::kFailed);
  CHECK(job.Ask(7, "jit_f/a") ==
        "process 1 (PE 1) is in all-reduce jit_f/b (64 bytes) of another program of that name: its copy differs, for "
        "example in a "
        "constant, in the order of the devices or in the flags of XLA; all processes must run the same programs");
}

TEST_CASE("at first only programs of one name are looked at") {
  Job job;
  job.Load(0, 7, "jit_f/a");
  job.Run(1, job.Load(1, 8, "jit_g/b"), State::kWaiting);
  CHECK(job.Ask(7, "jit_f/a", MismatchScope::kProgramsOfOneName).empty());
  Job copies;
  copies.Load(0, 7, "jit_f/a");
  copies.Run(1, copies.Load(1, 8, "jit_f/b"), State::kWaiting);
  CHECK_FALSE(copies.Ask(7, "jit_f/a", MismatchScope::kProgramsOfOneName).empty());
}

TEST_CASE("the collective under way counts, not one that ended before") {
  Job job;
  const uint32_t both = job.Load(1, 5, "jit_before/a");
  job.Load(0, 5, "jit_before/a");
  job.Load(0, 7, "jit_f/a");
  const uint32_t other = job.Load(1, 8, "jit_g/b");
  job.Run(1, both, State::kDone);
  job.Run(1, other, State::kStarted);
  CHECK(job.Ask(7, "jit_f/a").find("jit_g/b") != std::string::npos);
}

TEST_CASE("peers that may still come are not accused") {
  Job job;
  job.Load(0, 5, "jit_before/a");
  job.Load(0, 7, "jit_f/a");
  SUBCASE("no program") {}
  SUBCASE("between programs, perhaps while it compiles this one") {
    job.Run(1, job.Load(1, 5, "jit_before/a"), State::kDone);
  }
  SUBCASE("in a program that this process has loaded too") {
    job.Run(1, job.Load(1, 5, "jit_before/a"), State::kWaiting);
  }
  SUBCASE("this program is loaded") {
    job.Load(1, 7, "jit_f/a");
    job.Run(1, job.Load(1, 8, "jit_g/b"), State::kWaiting);
  }
  SUBCASE("in a program that does not wait for this process") {
    job.Run(1, job.Load(1, 8, "jit_g/b", {1, 2}), State::kWaiting);
  }
  SUBCASE("a process outside of the group") { job.Run(2, job.Load(2, 8, "jit_g/b", {2}), State::kWaiting); }
  CHECK(job.Ask(7, "jit_f/a").empty());
}

}  // namespace
}  // namespace xla_shmem::observe
