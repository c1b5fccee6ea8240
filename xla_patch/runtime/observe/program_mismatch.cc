#include "xla_patch/runtime/observe/program_mismatch.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace xla_shmem::observe {
namespace {

// A collective that a process has loaded.
struct LoadedSite {
  uint32_t number;
  uint64_t operation;
  std::string op;
  std::string name;
  std::vector<std::vector<int>> groups;  // as in Site
};

// The collective that a PE has begun and not ended, or, if there is none, the first that a failure has ended.
struct Unfinished {
  int pe;
  uint32_t site;
  uint64_t bytes;
};

// The content of the file of a process; "" if it has none.
std::string ReadRing(const std::string& directory, int process) {
  std::ostringstream content;
  content << std::ifstream(FlightRecorder::PathOf(directory, process), std::ios::binary).rdbuf();
  std::string ring = content.str();
  const auto* header = reinterpret_cast<const RingHeader*>(ring.data());
  const bool is_whole =
      ring.size() >= sizeof(RingHeader) && ring.size() >= sizeof(RingHeader) + header->n_pes * FlightRecorder::kPeBytes;
  return is_whole ? ring : "";
}

// The PEs of the process that wrote the ring.
std::vector<int> PesOf(const std::string& ring) {
  std::vector<int> pes;
  const uint32_t n_pes = ring.empty() ? 0 : reinterpret_cast<const RingHeader*>(ring.data())->n_pes;
  for (size_t i = 0; i < n_pes; ++i) {
    const char* const at = ring.data() + sizeof(RingHeader) + i * FlightRecorder::kPeBytes;
    pes.push_back(static_cast<int>(reinterpret_cast<const PeHeader*>(at)->pe));
  }
  return pes;
}

// The groups of a record, whose sizes and then members begin at `at`; fewer if the record is too short.
std::vector<std::vector<int>> ReadGroups(const std::string& ring, size_t at, size_t end, size_t n_groups) {
  std::vector<std::vector<int>> groups;
  const auto read = [&](size_t place) {
    uint32_t number = 0;
    memcpy(&number, ring.data() + place, sizeof(number));
    return number;
  };
  if (n_groups > (end - at) / sizeof(uint32_t)) return groups;
  size_t member = at + n_groups * sizeof(uint32_t);
  for (size_t i = 0; i < n_groups; ++i) {
    const size_t size = read(at + i * sizeof(uint32_t));
    if (size > (end - member) / sizeof(uint32_t)) return groups;
    std::vector<int>& group = groups.emplace_back();
    for (size_t j = 0; j < size; ++j, member += sizeof(uint32_t)) group.push_back(static_cast<int>(read(member)));
  }
  return groups;
}

bool Has(const std::vector<int>& pes, int pe) { return std::find(pes.begin(), pes.end(), pe) != pes.end(); }

// The PEs that take part with `pe`, and itself.
std::vector<int> MembersWith(const std::vector<std::vector<int>>& groups, int pe) {
  std::vector<int> members;
  for (const std::vector<int>& group : groups) {
    if (Has(group, pe)) members.insert(members.end(), group.begin(), group.end());
  }
  return members;
}

State StateOf(const Entry& entry) { return static_cast<State>(entry.state.load()); }

bool IsOpen(const Entry& entry) { return StateOf(entry) == State::kStarted || StateOf(entry) == State::kWaiting; }

// One for each PE that has one.
std::vector<Unfinished> FindUnfinished(const std::string& ring) {
  std::vector<Unfinished> found;
  const uint32_t n_pes = ring.empty() ? 0 : reinterpret_cast<const RingHeader*>(ring.data())->n_pes;
  for (size_t i = 0; i < n_pes; ++i) {
    const auto* pe = reinterpret_cast<const PeHeader*>(ring.data() + sizeof(RingHeader) + i * FlightRecorder::kPeBytes);
    const auto* entries = reinterpret_cast<const Entry*>(pe + 1);
    const Entry* oldest = nullptr;
    const auto rank = [](const Entry& of) { return std::pair(!IsOpen(of), of.sequence.load()); };
    for (const Entry* entry = entries; entry != entries + FlightRecorder::kEntries; ++entry) {
      if (entry->sequence.load() == 0 || (!IsOpen(*entry) && StateOf(*entry) != State::kFailed)) continue;
      if (oldest == nullptr || rank(*entry) < rank(*oldest)) oldest = entry;
    }
    if (oldest != nullptr) found.push_back({static_cast<int>(pe->pe), oldest->site, oldest->bytes});
  }
  return found;
}

std::vector<LoadedSite> FindSites(const std::string& ring) {
  std::vector<LoadedSite> sites;
  if (ring.empty()) return sites;
  const auto* header = reinterpret_cast<const RingHeader*>(ring.data());
  size_t at = sizeof(RingHeader) + header->n_pes * FlightRecorder::kPeBytes;
  const size_t end = std::min<size_t>(at + header->site_bytes.load(), ring.size());
  SiteRecord record{};
  for (; end - at >= sizeof(record); at += record.bytes) {
    memcpy(&record, ring.data() + at, sizeof(record));
    const size_t texts = size_t{record.op_bytes} + record.name_bytes + record.source_bytes;
    if (record.bytes > end - at || sizeof(record) + texts > record.bytes) {
      break;  // not written by this release
    }
    const size_t name = at + sizeof(record) + record.op_bytes;
    sites.push_back(
        {record.number, record.operation, ring.substr(at + sizeof(record), record.op_bytes),
         ring.substr(name, record.name_bytes),
         ReadGroups(ring, name + record.name_bytes + record.source_bytes, at + record.bytes, record.n_groups)});
  }
  return sites;
}

bool IsLoaded(uint64_t operation, const std::vector<LoadedSite>& sites) {
  return std::any_of(sites.begin(), sites.end(), [&](const LoadedSite& of) { return of.operation == operation; });
}

// "module" of a name "module/instruction".
std::string ModuleOf(const std::string& name) { return name.substr(0, name.find('/')); }

std::string Sentence(int process, const Unfinished& unfinished, const LoadedSite& other, const Site& own) {
  std::string text = "process " + std::to_string(process) + " (PE " + std::to_string(unfinished.pe) + ") is in " +
                     other.op + " " + other.name + " (" + std::to_string(unfinished.bytes) +
                     " bytes) of another program";
  if (ModuleOf(other.name) == ModuleOf(own.name)) {
    text +=
        " of that name: its copy differs, for example in a constant, in the order of the devices or in the flags of "
        "XLA";
  }
  return text + "; all processes must run the same programs";
}

}  // namespace

std::string DescribeProgramMismatch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                    int pe, const Site& site, MismatchScope scope) {
  const std::vector<int> peers = MembersWith(site.groups, pe);
  const std::string own_ring = ReadRing(directory, own_process);
  const std::vector<LoadedSite> own_sites = FindSites(own_ring);
  const std::vector<int> own_pes = PesOf(own_ring);
  for (const int process : processes) {
    if (process == own_process) continue;
    const std::string ring = ReadRing(directory, process);
    const std::vector<LoadedSite> sites = FindSites(ring);
    if (IsLoaded(site.operation, sites)) continue;
    for (const Unfinished& unfinished : FindUnfinished(ring)) {
      if (!Has(peers, unfinished.pe)) continue;
      const auto other =
          std::find_if(sites.begin(), sites.end(), [&](const LoadedSite& of) { return of.number == unfinished.site; });
      if (other == sites.end() || IsLoaded(other->operation, own_sites)) continue;
      if (scope == MismatchScope::kProgramsOfOneName && ModuleOf(other->name) != ModuleOf(site.name)) continue;
      const std::vector<int> waited_for = MembersWith(other->groups, unfinished.pe);
      const bool waits_for_us =
          std::any_of(own_pes.begin(), own_pes.end(), [&](int own) { return Has(waited_for, own); });
      if (waits_for_us) return Sentence(process, unfinished, *other, site);
    }
  }
  return "";
}

}  // namespace xla_shmem::observe
