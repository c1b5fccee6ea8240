// Teams and barriers.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "nvshmem/control.h"
#include "nvshmem/variables.h"
#include "nvshmem/world.h"

namespace emulator::nvshmem {
namespace {

constexpr int kInvalid = -1;  // NVSHMEM_TEAM_INVALID
// From 3.5 on, with NVLink SHARP: 15 duplicates of each team.
constexpr size_t kNvlsCopies = 16;
constexpr size_t kOwnTeams = 7;

bool HasNvls() { return Variable("NVSHMEM_DISABLE_NVLS", "0") != "1"; }

size_t MaxTeams() { return strtoull(Variable("NVSHMEM_MAX_TEAMS", "256").c_str(), nullptr, 10); }

Team& TeamOf(int team, const char* call) {
  World& world = Initialized(call);
  Demand(team >= 0 && team < static_cast<int>(world.teams.size()),
         std::string(call) + " of team " + std::to_string(team));
  return world.teams[team];
}

}  // namespace

int AddWorld() {
  std::vector<int> everybody(TheWorld().size);
  std::iota(everybody.begin(), everybody.end(), 0);
  // The library's own teams. Two more of them have all PEs of the host, and so duplicates.
  TheWorld().used_teams = kOwnTeams - 1 + (HasNvls() ? 2 * (kNvlsCopies - 1) : 0);
  return AddTeam(std::move(everybody));
}

int AddTeam(std::vector<int> members) {
  World& world = TheWorld();
  Team team;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == world.me) team.me = static_cast<int>(i);
  }
  team.members = std::move(members);
  if (team.me >= 0) {
    world.used_teams += HasNvls() ? kNvlsCopies : 1;
    if (HasNvls() && world.used_teams > MaxTeams()) {
      fprintf(stderr, "emulated NVSHMEM: unable to allocate enough duplicate teams (NVSHMEM_MAX_TEAMS), exiting\n");
      _Exit(1);
    }
    if (world.used_teams > MaxTeams()) return kInvalid;
  }
  if (world.teams.size() >= kMaxTeams) return kInvalid;
  world.teams.push_back(std::move(team));
  return static_cast<int>(world.teams.size()) - 1;
}

bool Meet(int number) {
  Team& team = TheWorld().teams[number];
  const uint64_t goal = ++team.meetings * team.members.size();
  for (const int pe : team.members) TheControl().arrived[number][pe].fetch_add(1);
  return WaitUntil([&] { return TheControl().arrived[number][TheWorld().me].load() >= goal; });
}

extern "C" {

int nvshmemx_barrier_on_stream(int team, CUstream stream) {
  TeamOf(team, "nvshmemx_barrier_on_stream");
  Demand(stream != nullptr, "nvshmemx_barrier_on_stream on the null stream");
  const auto meet = [](void* number) {
    if (!Meet(static_cast<int>(reinterpret_cast<intptr_t>(number)))) Refuse("a barrier whose other PEs have not come");
  };
  return cuLaunchHostFunc(stream, meet, reinterpret_cast<void*>(static_cast<intptr_t>(team)));
}

int nvshmem_team_my_pe(int team) { return TeamOf(team, "nvshmem_team_my_pe").me; }

int nvshmem_team_n_pes(int team) { return static_cast<int>(TeamOf(team, "nvshmem_team_n_pes").members.size()); }

int nvshmem_team_translate_pe(int team, int pe, int other) {
  const std::vector<int>& members = TeamOf(team, "nvshmem_team_translate_pe").members;
  Demand(pe >= 0 && pe < static_cast<int>(members.size()), "nvshmem_team_translate_pe of PE " + std::to_string(pe));
  const std::vector<int>& others = TeamOf(other, "nvshmem_team_translate_pe").members;
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i] == members[pe]) return static_cast<int>(i);
  }
  return -1;
}

int nvshmem_team_split_strided(int parent, int start, int stride, int size, const void*, long, int* team) {
  const std::vector<int> all = TeamOf(parent, "nvshmem_team_split_strided").members;
  Demand(parent == 0, "nvshmem_team_split_strided of a team other than the world is not emulated");
  const int last = start + (size - 1) * stride;
  Demand(size > 0 && start >= 0 && last >= 0 && start < static_cast<int>(all.size()) &&
             last < static_cast<int>(all.size()),
         "nvshmem_team_split_strided from " + std::to_string(start) + " by " + std::to_string(stride) + " of size " +
             std::to_string(size));
  std::vector<int> members;
  members.reserve(size);
  for (int i = 0; i < size; ++i) members.push_back(all[start + i * stride]);
  const int number = AddTeam(std::move(members));
  *team = number != kInvalid && TheWorld().teams[number].me >= 0 ? number : kInvalid;
  return Meet(parent) && number != kInvalid ? 0 : 1;
}

int nvshmem_team_split_2d(int, int, const void*, long, int*, const void*, long, int*) {
  Refuse("nvshmem_team_split_2d is not emulated");
}

void nvshmem_team_destroy(int) { Refuse("nvshmem_team_destroy is not emulated"); }

}  // extern "C"

}  // namespace emulator::nvshmem
