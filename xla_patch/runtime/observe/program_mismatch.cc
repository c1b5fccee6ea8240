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
    if (record.bytes > end - at || sizeof(record) + record.op_bytes + record.name_bytes > record.bytes) {
      break;  // not written by this release
    }
    const size_t name = at + sizeof(record) + record.op_bytes;
    sites.push_back({record.number, record.operation, ring.substr(at + sizeof(record), record.op_bytes),
                     ring.substr(name, record.name_bytes)});
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
  std::vector<int> peers;
  for (const std::vector<int>& group : site.groups) {
    if (std::find(group.begin(), group.end(), pe) != group.end()) peers.insert(peers.end(), group.begin(), group.end());
  }
  const std::vector<LoadedSite> own_sites = FindSites(ReadRing(directory, own_process));
  for (const int process : processes) {
    if (process == own_process) continue;
    const std::string ring = ReadRing(directory, process);
    const std::vector<LoadedSite> sites = FindSites(ring);
    if (IsLoaded(site.operation, sites)) continue;
    for (const Unfinished& unfinished : FindUnfinished(ring)) {
      if (std::find(peers.begin(), peers.end(), unfinished.pe) == peers.end()) continue;
      const auto other =
          std::find_if(sites.begin(), sites.end(), [&](const LoadedSite& of) { return of.number == unfinished.site; });
      if (other == sites.end()) continue;
      const bool in_scope = scope == MismatchScope::kAllPrograms || ModuleOf(other->name) == ModuleOf(site.name);
      if (in_scope && !IsLoaded(other->operation, own_sites)) {
        return Sentence(process, unfinished, *other, site);
      }
    }
  }
  return "";
}

}  // namespace xla_shmem::observe
