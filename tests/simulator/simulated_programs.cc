#include "tests/simulator/simulated_programs.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "tests/thunks/cpu/random_transfer.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/mailboxes.h"

namespace xla_shmem::simulator {
namespace {

// Ids are hashes. Crowded ones begin their search for a place at the same mailbox and the same record.
std::vector<uint64_t> DrawOperations(const Plan& plan) {
  std::vector<uint64_t> operations;
  const auto count = static_cast<size_t>(plan.rounds * plan.operations);
  const auto homes = [](uint64_t id) { return std::make_pair(Mailboxes::Home({id, 0}), GrantBoard::Home({id, 0})); };
  const uint64_t first = plan.seed << 20;
  if (plan.crowded) {
    for (uint64_t id = first; operations.size() < count; ++id) {
      if (operations.empty() || homes(id) == homes(first)) operations.push_back(id);
    }
  } else {
    // The same operations in each round.
    for (size_t i = 0; i < count; ++i) operations.push_back(first + i % static_cast<size_t>(plan.operations));
  }
  return operations;
}

// The part of a PE.
class ForeignOperation : public Operation {
 public:
  ForeignOperation(const ForeignCollective* collective, int pe, int64_t until)
      : collective_(collective), pe_(pe), until_(until) {}

  bool Poll() override { return collective_->all_came() || Scheduler::Get().now() >= until_; }
  bool is_of_default_backend() const override { return true; }
  std::set<int> WaitsFor() const override { return collective_->missing(); }
  std::string Describe(const std::set<int>& /*pes*/) const override {
    return "all-reduce of the default backend on PE " + std::to_string(pe_);
  }
  void Abandon() override {}

 private:
  const ForeignCollective* const collective_;
  const int pe_;
  const int64_t until_;
};

}  // namespace

SimulatedPrograms::SimulatedPrograms(const Plan& plan) : plan_(plan), operations_(DrawOperations(plan)) {}

uint64_t SimulatedPrograms::IdOf(int process, int round, int i) const {
  constexpr uint64_t kOfOtherProgram = uint64_t{1} << 60;
  const uint64_t id = operations_[static_cast<size_t>(round * plan_.operations + i)];
  if (process == plan_.ProcessWith(Fault::Kind::kOther)) return id | kOfOtherProgram;
  return plan_.copies ? testing::InCopy(id, process) : id;
}

observe::Site SimulatedPrograms::SiteOf(int process, int round, int i) const {
  const int program = plan_.crowded ? round : 0;
  const bool is_other = process == plan_.ProcessWith(Fault::Kind::kOther);
  const bool has_other_name = is_other && plan_.other == OtherProgram::kOfOtherName;
  const bool has_other_contents = is_other && plan_.other == OtherProgram::kOfOneForm && i + 1 == plan_.operations;
  observe::Site site;
  site.operation = IdOf(process, round, i);
  site.op = has_other_contents ? "all-gather" : "all-reduce";
  site.name = "jit_" +
              std::string(has_other_name   ? "other"
                          : plan_.one_form ? "step"
                                           : std::to_string(program)) +
              "/psum." + std::to_string(i);
  site.groups.emplace_back(plan_.process_of_pe.size());
  std::iota(site.groups[0].begin(), site.groups[0].end(), 0);
  site.origin.program = IdOf(process, plan_.crowded ? round : 0, 0);
  site.origin.form = 1 + static_cast<uint64_t>(plan_.one_form ? 0 : program);
  if (is_other && plan_.other != OtherProgram::kOfOneForm) site.origin.form += 1000;
  site.origin.place = static_cast<uint32_t>(i);
  site.origin.contents = "f32[" + std::to_string(i) + "]";
  return site;
}

std::unique_ptr<testing::Transfer> SimulatedPrograms::Draw(Random& random, MessageKey key, int pe) const {
  const int n_pes = plan_.n_pes();
  if (!plan_.ring_only) return testing::DrawTransfer(random, key, pe, n_pes, plan_.sizes);
  const size_t bytes = 1 + random() % plan_.sizes.largest;
  if (random() % 2 == 0) {
    constexpr int kMembers = 8;
    std::vector<int> group;
    for (int member = pe / kMembers * kMembers; member < std::min(n_pes, (pe / kMembers + 1) * kMembers); ++member) {
      group.push_back(member);
    }
    testing::Reduction reduction{ReductionKind::kSum, group, {ElementType::kF32}, {bytes / 4}};
    return std::make_unique<testing::AllReduceTransfer>(key, pe, reduction, testing::Placement::kApart);
  }
  // A PermuteTransfer looks through the targets of all PEs.
  std::vector<int> target_of(static_cast<size_t>(n_pes), -1);
  target_of[static_cast<size_t>(pe)] = (pe + 1) % n_pes;
  target_of[static_cast<size_t>((pe + n_pes - 1) % n_pes)] = pe;
  return std::make_unique<testing::PermuteTransfer>(key, pe, target_of, std::vector<size_t>{bytes},
                                                    testing::Placement::kApart);
}

std::unique_ptr<Operation> ForeignCollective::Begin(int pe, int64_t until) {
  came_.insert(pe);
  return std::make_unique<ForeignOperation>(this, pe, until);
}

std::set<int> ForeignCollective::missing() const {
  std::set<int> missing;
  for (int pe = 0; pe < n_pes_; ++pe) {
    if (came_.count(pe) == 0) missing.insert(pe);
  }
  return missing;
}

}  // namespace xla_shmem::simulator
