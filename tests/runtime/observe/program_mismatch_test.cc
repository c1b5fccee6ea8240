#include "xla_patch/runtime/observe/program_mismatch.h"

#include <memory>
#include <string>
#include <thread>
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
    return Load(process, {operation, "all-reduce", name, false, {std::move(group)}});
  }
  uint32_t Load(int process, const Site& site) {
    recorders_[process]->MarkLoad();
    return recorders_[process]->AddSite(site);
  }

  void Run(int process, uint32_t site, State state, uint64_t execution = 0) {
    uint64_t sequence = 0;
    Entry* entry = recorders_[process]->Begin(process, site, execution, 64, 1, &sequence);
    FlightRecorder::Set(entry, sequence, state, 2);
  }

  std::string Ask(uint64_t operation, const std::string& name,
                  MismatchScope scope = MismatchScope::kAllPrograms) const {
    return FindOtherPrograms(directory_.path(), kProcesses, 0, 0, {operation, "all-reduce", name, false, {{0, 1}, {2}}},
                             scope, {})
        .fault;
  }
  FoundPrograms Find(const Site& site, const KnownPairs& known = {}) const {
    return FindOtherPrograms(directory_.path(), kProcesses, 0, 0, site, MismatchScope::kProgramsOfOneName, known);
  }
  std::string FindWrong(const KnownPairs& known) const { return FindWrongPair(directory_.path(), known); }
  std::string FindBranch(const Site& site) const {
    return DescribeOtherBranch(directory_.path(), kProcesses, 0, 0, site, 0);
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

// Collective number `place` of program `program`, which has form 5.
Site SiteAt(uint64_t program, uint32_t place, const std::string& contents = "sum f32[4]",
            const std::string& source = "a.py:1", uint64_t form = 5) {
  Site site{10 * program + place, "all-reduce", "jit_f/psum." + std::to_string(place), false, {{0, 1, 2}}, source};
  site.origin = {program, form, place, 0, contents, {}, {}};
  return site;
}

// Process 0 has program 1, of which it runs the first of two collectives.
Site LoadOwn(Job* job) {
  job->Load(0, SiteAt(1, 0));
  job->Load(0, SiteAt(1, 1));
  return SiteAt(1, 0);
}

TEST_CASE("a copy of the program is paired, with all its collectives") {
  Job job;
  const Site own = LoadOwn(&job);
  for (const int process : {1, 2}) {
    job.Run(process, job.Load(process, SiteAt(1 + process, 0)), State::kWaiting);
    job.Load(process, SiteAt(1 + process, 1));
  }
  const FoundPrograms found = job.Find(own);
  CHECK(found.fault.empty());
  REQUIRE(found.pairs.size() == 2);
  for (const uint64_t process : {1, 2}) {
    const PairedProgram& pair = found.pairs[process - 1];
    CHECK(std::vector<uint64_t>{static_cast<uint64_t>(pair.process), pair.program, pair.other} ==
          std::vector<uint64_t>{process, 1, process + 1});
    REQUIRE(pair.operations.size() == 2);
    for (const uint64_t place : {0, 1}) {
      CHECK(pair.operations[place].pe == static_cast<int>(process));
      CHECK(pair.operations[place].operation == 10 + place);
      CHECK(pair.operations[place].other == 10 * (process + 1) + place);
    }
  }
  CHECK(job.Find(own, {{{1, 1}, 2}}).pairs.size() == 1);  // what is known already
}

TEST_CASE("also what has ended is paired, and what this process waits in does not matter") {
  Job job;
  LoadOwn(&job);
  const Site later = SiteAt(7, 0, "sum f32[4]", "a.py:9", 6);
  job.Load(0, later);
  job.Run(1, job.Load(1, SiteAt(2, 0)), State::kDone);
  job.Load(1, SiteAt(2, 1));
  const FoundPrograms found = job.Find(later);
  REQUIRE(found.pairs.size() == 1);
  CHECK(found.pairs[0].program == 1);
  CHECK(found.fault.empty());
}

TEST_CASE("copies are paired in the order in which they were loaded") {
  Job job;
  const Site own = LoadOwn(&job);
  const Site second{SiteAt(3, 0)};
  job.Load(0, second);
  job.Load(0, SiteAt(3, 1));
  for (const uint64_t program : {2, 4}) {
    job.Run(1, job.Load(1, SiteAt(program, 0)), State::kWaiting);
    job.Load(1, SiteAt(program, 1));
  }
  const FoundPrograms found = job.Find(own);
  REQUIRE(found.pairs.size() == 2);
  CHECK(found.pairs[0].program == 1);
  CHECK(found.pairs[0].other == 2);
  CHECK(found.pairs[1].program == 3);
  CHECK(found.pairs[1].other == 4);
}

TEST_CASE("what cannot be paired for certain is a fault") {
  Job job;
  const Site own = LoadOwn(&job);
  std::string why;
  SUBCASE("another form") {
    job.Run(1, job.Load(1, SiteAt(2, 0, "sum f32[4]", "a.py:1", 6)), State::kWaiting);
    SUBCASE("in size") {
      job.Load(1, SiteAt(2, 1, "sum f32[9]", "a.py:1", 6));
      why =
          ": collective 2 of process 0 is all-reduce jit_f/psum.1 (sum f32[4]) at a.py:1, of process 1 all-reduce "
          "jit_f/psum.1 (sum f32[9]) at a.py:1";
    }
    SUBCASE("in its place in the user's program") {
      job.Load(1, SiteAt(2, 1, "sum f32[4]", "a.py:2", 6));
      why =
          ": collective 2 of process 0 is all-reduce jit_f/psum.1 (sum f32[4], groups [[0,1,2]]) at a.py:1, of "
          "process 1 all-reduce jit_f/psum.1 (sum f32[4], groups [[0,1,2]]) at a.py:2";
    }
    SUBCASE("in number") {
      why =
          ": collective 2 of process 0 is all-reduce jit_f/psum.1 (sum f32[4]) at a.py:1, of process 1 none that "
          "xla-shmem carries";
    }
    SUBCASE("in what the records do not have") {
      job.Load(1, SiteAt(2, 1, "sum f32[4]", "a.py:1", 6));
      why = ", for example in the order of its collectives or devices, or in the flags of XLA";
    }
  }
  SUBCASE("several threads load programs") {
    job.Run(1, job.Load(1, SiteAt(2, 0)), State::kWaiting);
    std::thread([&] { job.Load(1, SiteAt(2, 1)); }).join();
    why = ", and several threads of process 1 load programs: which of them belong together is not known";
  }
  SUBCASE("one of that form is loaded in both") {
    job.Load(1, SiteAt(8, 0));
    job.Load(0, SiteAt(8, 0));
    job.Run(1, job.Load(1, SiteAt(2, 0)), State::kWaiting);
    job.Load(1, SiteAt(2, 1));
    why = ", and the processes have loaded several of that name: which of them belong together is not known";
  }
  CHECK(job.Find(own).pairs.empty());
  CHECK(job.Find(own).fault ==
        "process 1 (PE 1) is in all-reduce jit_f/psum.0 (64 bytes) of another program of that "
        "name: its copy differs" +
            why + "; all processes must run the same programs");
}

TEST_CASE("a process that has not begun its copy, or has loaded the program, may still come") {
  Job job;
  const Site own = LoadOwn(&job);
  const uint32_t other = job.Load(1, SiteAt(2, 0));
  job.Load(1, SiteAt(2, 1));
  SUBCASE("not begun") {}
  SUBCASE("loaded") {
    job.Load(1, SiteAt(1, 0));
    job.Run(1, other, State::kWaiting);
  }
  CHECK(job.Find(own).pairs.empty());
  CHECK(job.Find(own).fault.empty());
}

TEST_CASE("sites of the default backend are no collectives to be paired, and do not hide a program") {
  Job job;
  const Site own = LoadOwn(&job);
  Site marked = SiteAt(2, 0);
  marked.on_default_backend = true;
  marked.operation = 99;
  job.Run(1, job.Load(1, marked), State::kWaiting);
  job.Load(1, SiteAt(2, 0));
  job.Load(1, SiteAt(2, 1));
  const FoundPrograms found = job.Find(own);
  CHECK(found.fault.empty());
  REQUIRE(found.pairs.size() == 1);
  CHECK(found.pairs[0].operations[0].other == 20);
}

TEST_CASE("a process waits in an earlier program that this one has paired") {
  Job job;
  const Site first = LoadOwn(&job);
  const uint32_t peers = job.Load(1, SiteAt(2, 0));
  job.Load(1, SiteAt(2, 1));
  job.Run(1, peers, State::kWaiting, 7);
  const Site remade = SiteAt(3, 0);  // made again here, and not there
  const uint32_t own = job.Load(0, first);
  job.Load(0, remade);
  job.Load(0, SiteAt(3, 1));
  const KnownPairs known = {{{1, 1}, 2}};
  SUBCASE("and has what it waits for") {
    job.Run(0, own, State::kDone, 7);
    CHECK(job.Find(remade, known).fault.empty());
  }
  SUBCASE("for what comes behind this one") {
    job.Run(0, own, State::kDone, 6);
    CHECK(job.Find(remade, known).fault.find(", and the processes have loaded several of that name") !=
          std::string::npos);
  }
}

// A sum of two arrays of one size, which depend on the inputs with these bits.
Site Alike(uint64_t program, uint32_t place, uint64_t first, uint64_t second) {
  Site site = SiteAt(program, place, "sum (f32[4], f32[4])");
  site.origin.operand_sources = {77, first, 77, second};
  return site;
}

TEST_CASE("operands that look alike and are exchanged are a fault, in one collective and in two") {
  for (const bool in_two : {false, true}) {
    Job job;
    const Site own = Alike(1, 0, 0b001, 0b010);
    job.Load(0, own);
    job.Load(0, Alike(1, 1, 0b100, 0b111));
    job.Run(1, job.Load(1, in_two ? Alike(2, 0, 0b100, 0b010) : Alike(2, 0, 0b010, 0b001)), State::kWaiting);
    job.Load(1, in_two ? Alike(2, 1, 0b001, 0b111) : Alike(2, 1, 0b100, 0b111));
    const FoundPrograms found = job.Find(own);
    CHECK(found.pairs.empty());
    const std::string begin =
        ": what goes to operand 1 of collective 1, all-reduce jit_f/psum.0 (sum (f32[4], f32[4])) at a.py:1, in "
        "process 0 goes to operand ";
    const std::string other = in_two ? "1 of collective 2, all-reduce jit_f/psum.1 (sum (f32[4], f32[4])) at a.py:1"
                                     : "2 of collective 1, all-reduce jit_f/psum.0 (sum (f32[4], f32[4])) at a.py:1";
    CHECK(found.fault.find(begin + other + ", in process 1; trace collectives in the same order") != std::string::npos);
  }
}

TEST_CASE("operands in one order are no exchange, whatever else differs") {
  Job job;
  const Site own = Alike(1, 0, 0b01, 0b10);
  job.Load(0, own);
  Site other = Alike(2, 0, 0b01, 0b10);
  SUBCASE("the same inputs") {}
  SUBCASE("a constant has removed one") { other = Alike(2, 0, 0b00, 0b10); }
  SUBCASE("a constant chooses which rank gives something to which sum") { other = Alike(2, 0, 0b00, 0b01); }
  SUBCASE("an input goes to both") { other = Alike(2, 0, 0b10, 0b11); }
  SUBCASE("other inputs") { other = Alike(2, 0, 0b100, 0b1000); }
  SUBCASE("operands that do not look alike") {
    other = Alike(2, 0, 0b10, 0b01);
    other.origin.operand_sources[0] = 78;
  }
  job.Run(1, job.Load(1, other), State::kWaiting);
  CHECK(job.Find(own).pairs.size() == 1);
}

TEST_CASE("a process that loads the program with whose copy it was paired is found") {
  Job job;
  LoadOwn(&job);
  job.Load(1, SiteAt(2, 0));
  const KnownPairs known = {{{1, 1}, 2}};
  CHECK(job.FindWrong(known).empty());
  job.Load(2, SiteAt(1, 0));
  CHECK(job.FindWrong(known).empty());
  job.Load(1, SiteAt(1, 0));
  CHECK(job.FindWrong(known) ==
        "this process and process 1 run two functions named jit_f in different orders, and have taken one for a copy "
        "of the other; call them in the same order, or give them names of their own");
}

// A collective in branch `branch` of conditional 9.
Site InBranch(uint32_t place, uint64_t branch, std::vector<std::vector<int>> groups = {{0, 1, 2}}) {
  Site site = SiteAt(1, place, "f32[4]", "a.py:" + std::to_string(branch));
  site.groups = std::move(groups);
  site.origin.branches = {9, branch};
  return site;
}

TEST_CASE("a peer that waits in another branch of a conditional is named") {
  Job job;
  const Site here = InBranch(0, 0);
  job.Run(0, job.Load(0, here), State::kWaiting);
  const uint32_t own_other = job.Load(0, InBranch(1, 1));
  const uint32_t peers_first = job.Load(1, here);
  SUBCASE("and this process waits for it") {
    job.Run(1, job.Load(1, InBranch(1, 1)), State::kWaiting);
    CHECK(job.FindBranch(here) ==
          "process 1 (PE 1) has taken another branch of a conditional, with all-reduce jit_f/psum.1 (f32[4], groups "
          "[[0,1,2]]) at a.py:1, and process 0 (PE 0) that with all-reduce jit_f/psum.0 (f32[4], groups [[0,1,2]]) at "
          "a.py:0; all members of a collective must take the same branch");
  }
  SUBCASE("in the same branch") {
    job.Run(1, job.Load(1, InBranch(1, 0)), State::kWaiting);
    CHECK(job.FindBranch(here).empty());
  }
  SUBCASE("but does not wait for this process") {
    job.Run(1, job.Load(1, InBranch(1, 1, {{0}, {1, 2}})), State::kWaiting);
    CHECK(job.FindBranch(here).empty());
  }
  SUBCASE("of another conditional") {
    Site unrelated = InBranch(1, 1);
    unrelated.origin.branches = {8, 1};
    job.Run(1, job.Load(1, unrelated), State::kWaiting);
    CHECK(job.FindBranch(here).empty());
  }
  SUBCASE("but it has done its part here before") {
    job.Run(1, peers_first, State::kDone);
    job.Run(1, job.Load(1, InBranch(1, 1)), State::kWaiting);
    CHECK(job.FindBranch(here).empty());
  }
  SUBCASE("but this process has done its part there before") {
    job.Run(0, own_other, State::kDone);
    job.Run(1, job.Load(1, InBranch(1, 1)), State::kWaiting);
    CHECK(job.FindBranch(here).empty());
  }
  SUBCASE("but it has ended") {
    job.Run(1, job.Load(1, InBranch(1, 1)), State::kDone);
    CHECK(job.FindBranch(here).empty());
  }
}

}  // namespace
}  // namespace xla_shmem::observe
