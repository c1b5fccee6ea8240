// Where PEs wait for one another, and the library's own teams.
#include <cstdio>
#include <cstdlib>

#include "nvshmem/control.h"
#include "nvshmem/variables.h"
#include "nvshmem/world.h"

namespace emulator::nvshmem {

bool AsksForNvls() { return Variable("NVSHMEM_DISABLE_NVLS", "0") != "1"; }

void CheckTeams() {
  // The library's own teams. From 3.5 on, with NVLink SHARP: 15 duplicates of those with all PEs of the host.
  constexpr size_t kTeams = 7, kTeamsWithCopies = 3, kCopies = 15;
  const size_t teams = kTeams + (AsksForNvls() ? kTeamsWithCopies * kCopies : 0);
  if (teams <= strtoull(Variable("NVSHMEM_MAX_TEAMS", "256").c_str(), nullptr, 10)) return;
  fprintf(stderr, "emulated NVSHMEM: unable to allocate enough duplicate teams (NVSHMEM_MAX_TEAMS), exiting\n");
  _Exit(1);
}

bool Meet() {
  World& world = TheWorld();
  const uint64_t goal = ++world.meetings * static_cast<uint64_t>(world.size);
  for (int pe = 0; pe < world.size; ++pe) TheControl().arrived[pe].fetch_add(1);
  return WaitUntil([&] { return TheControl().arrived[world.me].load() >= goal; });
}

}  // namespace emulator::nvshmem
