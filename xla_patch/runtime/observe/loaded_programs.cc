#include "xla_patch/runtime/observe/loaded_programs.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace xla_shmem::observe {
namespace {

using Place = std::pair<uint32_t, uint32_t>;

bool AreEqual(const Site& a, const Site& b) {
  std::vector<std::vector<int>> groups = a.groups, others = b.groups;
  if (a.is_pairs) {  // in any order
    std::sort(groups.begin(), groups.end());
    std::sort(others.begin(), others.end());
  }
  return a.op == b.op && a.origin.contents == b.origin.contents && a.source == b.source && a.is_pairs == b.is_pairs &&
         groups == others;
}

// "groups [[0,1],[2]]"; long lists are cut.
std::string GroupsText(const Site& site) {
  constexpr size_t kMaxText = 60;
  std::string text;
  for (const std::vector<int>& group : site.groups) {
    std::string members;
    for (const int pe : group) members += (members.empty() ? "" : ",") + std::to_string(pe);
    text += (text.empty() ? "[" : ",[") + members + "]";
  }
  if (text.size() > kMaxText) text = text.substr(0, kMaxText) + "...";
  return (site.is_pairs ? "pairs [" : "groups [") + text + "]";
}

const Site* At(const LoadedProgram& program, const Place& place) {
  const auto found = program.sites.find(place);
  return found == program.sites.end() ? nullptr : found->second;
}

// An operand of a collective.
struct Operand {
  const Site* site;
  size_t number;
  uint64_t kind;    // what is moved and how
  uint64_t inputs;  // that it depends on
};

// All parts of a divided collective have its operands.
std::vector<Operand> OperandsOf(const LoadedProgram& program) {
  std::vector<Operand> operands;
  uint32_t next = 0;
  for (const auto& [place, site] : program.sites) {
    if (place.first < next) continue;
    next = place.first + 1;
    const std::vector<uint64_t>& sources = site->origin.operand_sources;
    for (size_t i = 0; i + 1 < sources.size(); i += 2) operands.push_back({site, i / 2, sources[i], sources[i + 1]});
  }
  return operands;
}

const Operand* Find(const std::vector<Operand>& operands, uint64_t kind, uint64_t inputs) {
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [&](const Operand& of) { return of.kind == kind && of.inputs == inputs; });
  return found == operands.end() ? nullptr : &*found;
}

std::string Name(const Operand& operand) {
  return "operand " + std::to_string(operand.number + 1) + " of collective " +
         std::to_string(operand.site->origin.place + 1) + ", " + NameSite(*operand.site);
}

}  // namespace

std::vector<LoadedProgram> ProgramsOf(const RecordOfProcess& record) {
  std::vector<LoadedProgram> programs;
  for (const LoadedSite& loaded : record.sites) {
    const Origin& origin = loaded.site.origin;
    if (origin.form == 0) continue;
    auto program = std::find_if(programs.begin(), programs.end(),
                                [&](const LoadedProgram& of) { return of.id == origin.program; });
    if (program == programs.end()) program = programs.insert(programs.end(), {origin.program, origin.form, {}});
    if (!loaded.site.on_default_backend) program->sites.emplace(Place(origin.place, origin.part), &loaded.site);
  }
  return programs;
}

const LoadedProgram* Find(const std::vector<LoadedProgram>& programs, uint64_t id) {
  const auto found =
      std::find_if(programs.begin(), programs.end(), [&](const LoadedProgram& program) { return program.id == id; });
  return found == programs.end() ? nullptr : &*found;
}

std::string NameSite(const Site& site, bool with_groups) {
  std::string text = site.op + " " + site.name + " (" + site.origin.contents;
  if (with_groups) text += ", " + GroupsText(site);
  return text + ")" + (site.source.empty() ? "" : " at " + site.source);
}

std::string DescribeFirstDifference(int process, const LoadedProgram& program, int other_process,
                                    const LoadedProgram& other) {
  std::set<Place> places;
  for (const LoadedProgram* each : {&program, &other}) {
    for (const auto& [place, site] : each->sites) places.insert(place);
  }
  for (const Place& place : places) {
    const Site* const here = At(program, place);
    const Site* const there = At(other, place);
    if (here != nullptr && there != nullptr && AreEqual(*here, *there)) continue;
    const bool with_groups =
        here != nullptr && there != nullptr && here->op == there->op && here->origin.contents == there->origin.contents;
    const auto name = [&](const Site* site) {
      return site == nullptr ? "none that xla-shmem carries" : NameSite(*site, with_groups);
    };
    return ": collective " + std::to_string(place.first + 1) + " of process " + std::to_string(process) + " is " +
           name(here) + ", of process " + std::to_string(other_process) + " " + name(there);
  }
  return "";
}

std::string DescribeExchange(int process, const LoadedProgram& program, int other_process, const LoadedProgram& other) {
  const std::vector<Operand> here = OperandsOf(program), there = OperandsOf(other);
  if (here.size() != there.size()) return "";
  for (size_t i = 0; i < here.size(); ++i) {
    const uint64_t own = here[i].inputs, others = there[i].inputs;
    if ((own & ~others) == 0 || (others & ~own) == 0 || here[i].kind != there[i].kind) continue;
    const Operand* const moved = Find(there, here[i].kind, own);
    if (moved == nullptr || Find(here, here[i].kind, others) == nullptr) continue;
    return ": what goes to " + Name(here[i]) + ", in process " + std::to_string(process) + " goes to " + Name(*moved) +
           ", in process " + std::to_string(other_process) +
           "; trace collectives in the same order in all processes (the order of a Python set differs)";
  }
  return "";
}

}  // namespace xla_shmem::observe
