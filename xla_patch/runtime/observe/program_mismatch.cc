#include "xla_patch/runtime/observe/program_mismatch.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "xla_patch/runtime/observe/loaded_programs.h"
#include "xla_patch/runtime/observe/ring_reader.h"

namespace xla_shmem::observe {
namespace {

// The PEs that take part with `pe`, and itself.
std::vector<int> MembersWith(const std::vector<std::vector<int>>& groups, int pe) {
  std::vector<int> members;
  for (const std::vector<int>& group : groups) {
    if (Has(group, pe)) members.insert(members.end(), group.begin(), group.end());
  }
  return members;
}

// "module" of a name "module/instruction".
std::string ModuleOf(const std::string& name) { return name.substr(0, name.find('/')); }

struct Process {
  explicit Process(RecordOfProcess record_of_it) : record(std::move(record_of_it)), programs(ProgramsOf(record)) {}

  std::vector<const LoadedProgram*> ProgramsOfForm(uint64_t form) const {
    std::vector<const LoadedProgram*> found;
    for (const LoadedProgram& program : programs) {
      if (program.form == form) found.push_back(&program);
    }
    return found;
  }

  const RecordOfProcess record;
  const std::vector<LoadedProgram> programs;  // of the record
};

// The copy of a program in another process, or why it has none.
struct Copy {
  const LoadedProgram* program = nullptr;
  std::string why_not;
};

Copy FindCopy(const Process& own, const LoadedProgram& program, const Process& process) {
  const std::vector<const LoadedProgram*> here = own.ProgramsOfForm(program.form);
  const std::vector<const LoadedProgram*> there = process.ProgramsOfForm(program.form);
  if (there.empty()) return {};
  const int number = process.record.process;
  const bool share_one =
      std::any_of(here.begin(), here.end(), [&](const auto* of) { return Find(process.programs, of->id) != nullptr; });
  const auto place = static_cast<size_t>(std::find(here.begin(), here.end(), &program) - here.begin());
  if (share_one || place >= there.size()) {
    return {nullptr,
            ", and the processes have loaded several of that name: which of them belong together is not known"};
  }
  for (const Process* each : {&own, &process}) {
    if (!each->record.several_threads_load) continue;
    return {nullptr, ", and several threads of process " + std::to_string(each->record.process) +
                         " load programs: which of them belong together is not known"};
  }
  const LoadedProgram& copy = *there[place];
  std::string why_not = DescribeFirstDifference(own.record.process, program, number, copy);
  if (why_not.empty()) why_not = DescribeExchange(own.record.process, program, number, copy);
  if (!why_not.empty()) return {nullptr, std::move(why_not)};
  const std::vector<Begun>& begun = process.record.begun;
  const bool has_begun =
      std::any_of(begun.begin(), begun.end(), [&](const Begun& of) { return of.site->origin.program == copy.id; });
  return {has_begun ? &copy : nullptr, ""};
}

PairedProgram Pair(const LoadedProgram& program, const LoadedProgram& copy, const RecordOfProcess& record) {
  PairedProgram pair{record.process, program.id, copy.id, {}};
  for (const auto& [place, site] : program.sites) {
    for (const int pe : record.pes) {
      pair.operations.push_back({pe, site->operation, copy.sites.at(place)->operation});
    }
  }
  return pair;
}

// What this process calls an operation of another one, if it has loaded it or its copy.
std::optional<uint64_t> OwnOperation(const Process& own, int process, const Site& other, const KnownPairs& known) {
  if (own.record.HasLoaded(other.operation)) return other.operation;
  for (const LoadedProgram& program : own.programs) {
    const auto pair = known.find({process, program.id});
    if (pair == known.end() || pair->second != other.origin.program) continue;
    const auto site = program.sites.find({other.origin.place, other.origin.part});
    if (site != program.sites.end()) return site->second->operation;
  }
  return std::nullopt;
}

// Where two programs of one name differ.
std::string DescribeDifference(const Process& own, const Site& site, const Process& process, const Site& other,
                               const std::string& why_no_copy) {
  if (site.origin.form == 0) {
    return ", for example in a constant, in the order of the devices or in the flags of XLA";
  }
  if (!why_no_copy.empty()) return why_no_copy;
  const LoadedProgram* const program = Find(own.programs, site.origin.program);
  const LoadedProgram* const copy = Find(process.programs, other.origin.program);
  std::string difference;
  if (program != nullptr && copy != nullptr) {
    difference = DescribeFirstDifference(own.record.process, *program, process.record.process, *copy);
  }
  return difference.empty() ? ", for example in the order of its collectives or devices, or in the flags of XLA"
                            : difference;
}

// The fault in what `process` does while `pe` waits in `site`, or "".
std::string DescribeFault(const Process& own, int pe, const Site& site, const Process& process, MismatchScope scope,
                          const KnownPairs& known, const std::string& why_no_copy) {
  const std::vector<int> peers = MembersWith(site.groups, pe);
  for (const Begun& begun : process.record.unfinished) {
    const Site& other = *begun.site;
    if (!Has(peers, begun.pe)) continue;
    const bool has_one_name = ModuleOf(other.name) == ModuleOf(site.name);
    if (scope == MismatchScope::kProgramsOfOneName && !has_one_name) continue;
    std::vector<int> awaiting = own.record.pes;
    if (const auto operation = OwnOperation(own, process.record.process, other, known); operation.has_value()) {
      // This process can come to it, unless that is behind `site`: runs on a PE come one after the other.
      if (other.origin.form == 0 || other.origin.form != site.origin.form) continue;
      if (own.record.HasBegun(pe, *operation, begun.execution)) continue;
      awaiting = {pe};
    }
    const std::vector<int> awaited = MembersWith(other.groups, begun.pe);
    if (std::none_of(awaiting.begin(), awaiting.end(), [&](int of_us) { return Has(awaited, of_us); })) continue;
    std::string text = "process " + std::to_string(process.record.process) + " (PE " + std::to_string(begun.pe) +
                       ") is in " + other.op + " " + other.name + " (" + std::to_string(begun.bytes) +
                       " bytes) of another program";
    if (has_one_name) {
      text += " of that name: its copy differs" + DescribeDifference(own, site, process, other, why_no_copy);
    }
    return text + "; all processes must run the same programs";
  }
  return "";
}

// Whose data `pe` gets.
std::vector<int> SendersTo(const Site& site, int pe) {
  std::vector<int> senders;
  if (!site.is_pairs) {
    senders = MembersWith(site.groups, pe);
    if (site.op == "collective-broadcast" && !senders.empty()) senders.resize(1);
    return senders;
  }
  for (const std::vector<int>& pair : site.groups) {
    if (pair.size() == 2 && pair[1] == pe) senders.push_back(pair[0]);
  }
  return senders;
}

// Whether they are in different branches of one conditional.
bool AreParted(const Site& site, const Site& other) {
  const std::vector<uint64_t>&here = site.origin.branches, &there = other.origin.branches;
  for (size_t i = 0; i + 1 < here.size(); i += 2) {
    for (size_t j = 0; j + 1 < there.size(); j += 2) {
      if (here[i] == there[j] && here[i + 1] != there[j + 1]) return true;
    }
  }
  return false;
}

}  // namespace

FoundPrograms FindOtherPrograms(const std::string& directory, const std::vector<int>& processes, int own_process,
                                int pe, const Site& site, MismatchScope scope, KnownPairs known) {
  FoundPrograms found;
  const Process own(ReadRecordOfProcess(directory, own_process));
  for (const int number : processes) {
    const auto is_paired = [&](uint64_t program) { return known.count({number, program}) != 0; };
    if (number == own_process || is_paired(site.origin.program)) continue;
    const Process process(ReadRecordOfProcess(directory, number));
    if (process.record.HasLoaded(site.operation)) continue;
    std::string why_no_copy;
    // Of all programs: the other process may wait in one that has come to its end here.
    for (const LoadedProgram& program : own.programs) {
      if (is_paired(program.id)) continue;
      const Copy copy = FindCopy(own, program, process);
      if (program.id == site.origin.program) why_no_copy = copy.why_not;
      if (copy.program == nullptr) continue;
      known.emplace(std::pair(number, program.id), copy.program->id);
      found.pairs.push_back(Pair(program, *copy.program, process.record));
    }
    if (is_paired(site.origin.program)) continue;
    found.fault = DescribeFault(own, pe, site, process, scope, known, why_no_copy);
    if (!found.fault.empty()) return found;
  }
  return found;
}

std::string DescribeWrongPair(const std::string& module, int process) {
  return "this process and process " + std::to_string(process) + " run two functions named " + module +
         " in different orders, and have taken one for a copy of the other; call them in the same order, or give them "
         "names of their own";
}

std::string FindWrongPair(const std::string& directory, const KnownPairs& known) {
  std::map<int, RecordOfProcess> records;
  for (const auto& [key, other] : known) {
    const auto [record, is_new] = records.try_emplace(key.first);
    if (is_new) record->second = ReadRecordOfProcess(directory, key.first);
    for (const LoadedSite& loaded : record->second.sites) {
      if (loaded.site.origin.form == 0 || loaded.site.origin.program != key.second) continue;
      return DescribeWrongPair(ModuleOf(loaded.site.name), key.first);
    }
  }
  return "";
}

std::string DescribeOtherBranch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                int pe, const Site& site, uint64_t execution) {
  if (site.origin.branches.empty()) return "";
  const std::vector<int> senders = SendersTo(site, pe);
  const RecordOfProcess own = ReadRecordOfProcess(directory, own_process);
  for (const int process : processes) {
    if (process == own_process) continue;
    const RecordOfProcess record = ReadRecordOfProcess(directory, process);
    for (const Begun& begun : record.begun) {
      const Site& other = *begun.site;
      if (!begun.is_open() || !Has(senders, begun.pe)) continue;
      if (other.origin.program != site.origin.program || !AreParted(site, other)) continue;
      // In a loop one may have been in the other's branch before.
      const bool wait_for_each_other = Has(SendersTo(other, begun.pe), pe) &&
                                       !record.HasBegun(begun.pe, site.operation, execution) &&
                                       !own.HasBegun(pe, other.operation, begun.execution);
      if (!wait_for_each_other) continue;
      return "process " + std::to_string(process) + " (PE " + std::to_string(begun.pe) +
             ") has taken another branch of a conditional, with " + NameSite(other, true) + ", and process " +
             std::to_string(own_process) + " (PE " + std::to_string(pe) + ") that with " + NameSite(site, true) +
             "; all members of a collective must take the same branch";
    }
  }
  return "";
}

}  // namespace xla_shmem::observe
