#include "xla_patch/runtime/observe/program_mismatch.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "xla_patch/runtime/observe/json_text.h"

namespace xla_shmem::observe {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The collective that a PE has begun and not ended, or, if there is none, the first that a failure has ended.
struct Unfinished {
  int pe;
  uint32_t site;
};

// One for each PE in the ring file with content `bytes` that has one.
std::vector<Unfinished> FindUnfinished(const std::string& bytes) {
  std::vector<Unfinished> found;
  if (bytes.size() < sizeof(RingHeader)) return found;
  const auto* header = reinterpret_cast<const RingHeader*>(bytes.data());
  const size_t pe_bytes = sizeof(PeHeader) + FlightRecorder::kEntries * sizeof(Entry);
  for (size_t i = 0; i < header->n_pes && sizeof(RingHeader) + (i + 1) * pe_bytes <= bytes.size(); ++i) {
    const auto* pe = reinterpret_cast<const PeHeader*>(bytes.data() + sizeof(RingHeader) + i * pe_bytes);
    const auto* entries = reinterpret_cast<const Entry*>(pe + 1);
    const Entry* oldest = nullptr;
    const auto is_open = [](const Entry& entry) {
      const auto state = static_cast<State>(entry.state.load());
      return state == State::kStarted || state == State::kWaiting;
    };
    for (const Entry* entry = entries; entry != entries + FlightRecorder::kEntries; ++entry) {
      const bool has_failed = static_cast<State>(entry->state.load()) == State::kFailed;
      if (entry->sequence.load() == 0 || (!is_open(*entry) && !has_failed)) continue;
      const auto rank = [&](const Entry& of) { return std::pair(!is_open(of), of.sequence.load()); };
      if (oldest == nullptr || rank(*entry) < rank(*oldest)) oldest = entry;
    }
    if (oldest != nullptr) found.push_back({static_cast<int>(pe->pe), oldest->site});
  }
  return found;
}

// The line of `sites` that contains `text`, or "".
std::string_view LineWith(std::string_view sites, const std::string& text) {
  const size_t at = sites.find(text);
  if (at == std::string_view::npos) return {};
  const size_t begin = sites.rfind('\n', at) + 1;  // npos + 1 is 0
  return sites.substr(begin, sites.find('\n', at) - begin);
}

std::string_view LineOfOperation(std::string_view sites, std::string_view operation) {
  return LineWith(sites, "\"operation\": " + std::string(operation) + ",");
}

// The value of `field` in a line, as it is written there.
std::string_view ValueOf(std::string_view line, std::string_view field) {
  const std::string key = "\"" + std::string(field) + "\": ";
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + key.size());
  return rest.substr(0, rest.find(", \""));
}

// "module" of a name "module/instruction".
std::string_view ModuleOf(std::string_view name) { return name.substr(0, name.find('/')); }

std::string_view Unquoted(std::string_view text) { return text.size() < 2 ? text : text.substr(1, text.size() - 2); }

}  // namespace

std::string DescribeProgramMismatch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                    int pe, const Site& site) {
  std::vector<int> peers;
  for (const std::vector<int>& group : site.groups) {
    if (std::find(group.begin(), group.end(), pe) != group.end()) peers.insert(peers.end(), group.begin(), group.end());
  }
  const std::string own_sites = Read(directory + "/" + std::to_string(own_process) + ".sites");
  for (const int process : processes) {
    if (process == own_process) continue;
    const std::string prefix = directory + "/" + std::to_string(process);
    const std::string sites = Read(prefix + ".sites");
    if (!LineOfOperation(sites, std::to_string(site.operation)).empty()) continue;
    for (const Unfinished& other : FindUnfinished(Read(prefix + ".ring"))) {
      if (std::find(peers.begin(), peers.end(), other.pe) == peers.end()) continue;
      const std::string_view line = LineWith(sites, "{\"site\": " + std::to_string(other.site) + ",");
      const std::string_view operation = ValueOf(line, "operation");
      if (operation.empty() || !LineOfOperation(own_sites, operation).empty()) continue;
      const std::string_view name = Unquoted(ValueOf(line, "name"));
      std::string text = "process " + std::to_string(process) + " (PE " + std::to_string(other.pe) + ") is in " +
                         std::string(Unquoted(ValueOf(line, "op"))) + " " + std::string(name) + " of another program";
      const std::string own_name = JsonString(site.name);
      if (ModuleOf(name) == ModuleOf(Unquoted(own_name))) {
        text +=
            " of that name: its copy differs, for example in a constant, in the order of the devices or in the flags "
            "of XLA";
      }
      return text + "; all processes must run the same programs";
    }
  }
  return "";
}

}  // namespace xla_shmem::observe
