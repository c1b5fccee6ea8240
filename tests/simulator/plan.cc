#include "tests/simulator/plan.h"

#include <algorithm>

namespace xla_shmem::simulator {

std::string Describe(const Plan& plan) {
  std::string text = std::to_string(plan.processes()) + " processes, " + std::to_string(plan.n_pes()) + " PEs, " +
                     std::to_string(plan.rounds) + " rounds of " + std::to_string(plan.operations) +
                     " operations of up to " + std::to_string(plan.sizes.largest) + " bytes, " +
                     (plan.single_copy == shm::SingleCopy::kOff    ? "no cross-memory reads"
                      : plan.single_copy == shm::SingleCopy::kAuto ? "reads or slots"
                                                                   : "cross-memory reads");
  if (plan.system.with_shared_buffers > 0) text += ", shared buffers";
  if (plan.system.refused_reads > 0) text += " that may be refused";
  if (plan.crowded) text += ", crowded";
  if (plan.scarce) text += ", few slots";
  if (plan.in_process) text += ", no messages within a process";
  if (plan.copies) text += ", copies";
  if (plan.one_form) text += " of one form";
  if (plan.leaves_early) text += ", processes leave early";
  if (plan.programs_at_once) text += ", two programs at once";
  if (plan.foreign) text += ", default backend";
  if (plan.refuses_threads()) text += ", threads refused";
  if (plan.scheduler.pause_ns > 0) text += ", threads pause";
  for (const Fault& fault : plan.faults) {
    const char* const what[] = {" killed", " stopped", " late", " at its end", " in another program", " traced"};
    text += ", process " + std::to_string(fault.process) + what[static_cast<int>(fault.kind)] + " after " +
            std::to_string(fault.at_ns / 1000) + " us";
    if (fault.for_ns > 0) text += " for " + std::to_string(fault.for_ns / 1000) + " us";
  }
  if (plan.faults.empty()) return text;
  return text + ", deadline " + std::to_string(plan.deadline.count() / 1'000'000) + " ms";
}

bool Plan::Has(Fault::Kind kind) const { return ProcessWith(kind) >= 0; }

int Plan::ProcessWith(Fault::Kind kind) const {
  const auto found = std::find_if(faults.begin(), faults.end(), [=](const Fault& fault) { return fault.kind == kind; });
  return found == faults.end() ? -1 : found->process;
}

bool Plan::IsKilled(int process) const {
  return std::any_of(faults.begin(), faults.end(), [=](const Fault& fault) {
    return fault.kind == Fault::Kind::kKilled && fault.process == process;
  });
}

bool Plan::AnyKilled() const {
  return std::any_of(faults.begin(), faults.end(),
                     [](const Fault& fault) { return fault.kind == Fault::Kind::kKilled; });
}

int Plan::OnlyStopped() const {
  const bool nothing_else = faults.size() == 1 && !scarce && !refuses_threads() && scheduler.pause_ns == 0;
  return nothing_else && faults[0].kind == Fault::Kind::kStopped ? faults[0].process : -1;
}

int64_t Plan::LongestStop() const {
  int64_t longest = 0;
  for (const Fault& fault : faults) longest = std::max(longest, fault.for_ns);
  return longest;
}

int64_t Plan::LastFault() const {
  int64_t last = 0;
  for (const Fault& fault : faults) {
    last = std::max(last, fault.kind == Fault::Kind::kLate ? fault.for_ns : fault.at_ns);
  }
  return last;
}

}  // namespace xla_shmem::simulator
