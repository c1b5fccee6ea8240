#include "xla_patch/runtime/observe/program_mismatch.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace xla_shmem::observe {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The PEs in the ring file with content `bytes`.
std::vector<int> PesOf(const std::string& bytes) {
  std::vector<int> pes;
  if (bytes.size() < sizeof(RingHeader)) return pes;
  const auto* header = reinterpret_cast<const RingHeader*>(bytes.data());
  const size_t pe_bytes = sizeof(PeHeader) + FlightRecorder::kEntries * sizeof(Entry);
  for (size_t i = 0; i < header->n_pes && sizeof(RingHeader) + (i + 1) * pe_bytes <= bytes.size(); ++i) {
    const auto* pe = reinterpret_cast<const PeHeader*>(bytes.data() + sizeof(RingHeader) + i * pe_bytes);
    pes.push_back(static_cast<int>(pe->pe));
  }
  return pes;
}

}  // namespace

std::string DescribeProgramMismatch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                    int pe, const Site& site) {
  std::vector<int> peers;
  for (const std::vector<int>& group : site.groups) {
    if (std::find(group.begin(), group.end(), pe) != group.end()) peers.insert(peers.end(), group.begin(), group.end());
  }
  const std::string wanted = "\"operation\": " + std::to_string(site.operation) + ",";
  for (const int process : processes) {
    if (process == own_process) continue;
    const std::string prefix = directory + "/" + std::to_string(process);
    const std::string sites = Read(prefix + ".sites");
    if (sites.empty() || sites.find(wanted) != std::string::npos) continue;
    for (const int other : PesOf(Read(prefix + ".ring"))) {
      if (std::find(peers.begin(), peers.end(), other) == peers.end()) continue;
      return "process " + std::to_string(process) + " (PE " + std::to_string(other) +
             ") has loaded no program with this collective: the processes run different programs";
    }
  }
  return "";
}

}  // namespace xla_shmem::observe
