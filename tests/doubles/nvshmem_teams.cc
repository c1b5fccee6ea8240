#include "tests/doubles/nvshmem_teams.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"

namespace xla_shmem::nvshmem_double {
namespace {

struct Team {
  std::vector<int> members;  // world PEs in team order; empty: the handle is free
  uint64_t epoch = 0;        // barriers so far
};

// The teams of one local PE. A team's handle is its sync row, the same at all members.
struct PeTeams {
  std::array<Team, kMaxTeams> teams;
};

shm::Heap* heap = nullptr;
size_t sync_offset = 0;  // uint64 [kMaxTeams][n_pes]: barrier epochs seen, by member world PE
size_t vote_offset = 0;  // uint64 [kMaxTeams][n_pes]: masks of free rows, voted on row of the parent
std::mutex pes_mutex;    // guards the map; each entry is used by its own PE's thread only
std::map<int, PeTeams> pes;

int MyPe() { return Api().shmem.my_pe(); }

PeTeams& Mine() {
  std::lock_guard<std::mutex> lock(pes_mutex);
  return pes[MyPe()];
}

Team* Find(TeamHandle handle) {
  if (handle < 0 || handle >= kMaxTeams) return nullptr;
  Team& team = Mine().teams[handle];
  return team.members.empty() ? nullptr : &team;
}

uint64_t* Word(size_t area, TeamHandle row, int column) {
  return reinterpret_cast<uint64_t*>(heap->base(MyPe()) + area) + static_cast<size_t>(row) * heap->n_pes() + column;
}

int IndexOf(const Team& team, int pe) {
  const auto found = std::find(team.members.begin(), team.members.end(), pe);
  return found == team.members.end() ? -1 : static_cast<int>(found - team.members.begin());
}

// Collective calls outside streams have a deadline too.
bool Wait(Stream& stream) {
  return Synchronize(stream, std::chrono::steady_clock::now() + std::chrono::seconds(60), std::chrono::microseconds(20))
      .ok();
}

// Agrees with all members of `parent` on the lowest rows that are free everywhere.
uint64_t FreeRowsEverywhere(TeamHandle parent_handle, const Team& parent) {
  uint64_t mask = 0;
  for (int row = 0; row < kMaxTeams; ++row) {
    if (Mine().teams[row].members.empty()) mask |= uint64_t{1} << row;
  }
  // Bit 63 tells a vote from an empty word; the barriers around it keep two splits of one parent apart.
  constexpr uint64_t kVoted = uint64_t{1} << 63;
  Stream stream;
  for (int pe : parent.members) {
    Api().shmem.signal_op_on_stream(Word(vote_offset, parent_handle, MyPe()), mask | kVoted, kSignalSet, pe, &stream);
  }
  for (int pe : parent.members) {
    Api().shmem.signal_wait_until_on_stream(Word(vote_offset, parent_handle, pe), kCmpNe, 0, &stream);
  }
  if (!Wait(stream)) return 0;
  for (int pe : parent.members) mask &= LoadSignal(Word(vote_offset, parent_handle, pe));
  TeamBarrierOnStream(parent_handle, &stream);
  if (!Wait(stream)) return 0;
  for (int pe : parent.members) __atomic_store_n(Word(vote_offset, parent_handle, pe), 0, __ATOMIC_RELEASE);
  TeamBarrierOnStream(parent_handle, &stream);
  return Wait(stream) ? mask : 0;
}

TeamHandle Install(int row, std::vector<int> members) {
  if (std::find(members.begin(), members.end(), MyPe()) == members.end()) return kTeamInvalid;
  for (int pe : members) __atomic_store_n(Word(sync_offset, row, pe), 0, __ATOMIC_RELEASE);
  Mine().teams[row] = Team{std::move(members), 0};
  return row;
}

}  // namespace

bool ResetTeams(shm::Heap* new_heap) {
  std::lock_guard<std::mutex> lock(pes_mutex);
  heap = new_heap;
  pes.clear();
  const size_t area = sizeof(uint64_t) * kMaxTeams * static_cast<size_t>(heap->n_pes());
  sync_offset = heap->Allocate(area);
  vote_offset = heap->Allocate(area);
  if (vote_offset == SIZE_MAX || sync_offset == SIZE_MAX) return false;
  std::vector<int> world(heap->n_pes());
  for (int pe = 0; pe < heap->n_pes(); ++pe) world[pe] = pe;
  for (int pe : heap->local_pes()) pes[pe].teams[kTeamWorld].members = world;
  return true;
}

int TeamMyPe(TeamHandle handle) {
  const Team* team = Find(handle);
  return team == nullptr ? -1 : IndexOf(*team, MyPe());
}

int TeamNumPes(TeamHandle handle) {
  const Team* team = Find(handle);
  return team == nullptr ? -1 : static_cast<int>(team->members.size());
}

int TeamTranslatePe(TeamHandle source_handle, int source_pe, TeamHandle destination_handle) {
  const Team* source = Find(source_handle);
  const Team* destination = Find(destination_handle);
  if (source == nullptr || destination == nullptr || source_pe < 0 ||
      source_pe >= static_cast<int>(source->members.size())) {
    return -1;
  }
  return IndexOf(*destination, source->members[source_pe]);
}

int TeamSplitStrided(TeamHandle parent_handle, int start, int stride, int size, const void*, long,
                     TeamHandle* new_team) {
  *new_team = kTeamInvalid;
  const Team* parent = Find(parent_handle);
  if (parent == nullptr) return 1;
  const int parent_size = static_cast<int>(parent->members.size());
  const int64_t last = start + static_cast<int64_t>(size - 1) * stride;
  const bool valid =
      size > 0 && start >= 0 && start < parent_size && last >= 0 && last < parent_size && (stride != 0 || size == 1);
  const uint64_t rows = FreeRowsEverywhere(parent_handle, *parent) & ((uint64_t{1} << kMaxTeams) - 1);
  if (!valid || rows == 0) return 1;
  std::vector<int> members;
  members.reserve(size);
  for (int i = 0; i < size; ++i) members.push_back(parent->members[start + i * stride]);
  *new_team = Install(__builtin_ctzll(rows), std::move(members));
  // No PE may signal a row before its owner has cleared it.
  Stream stream;
  TeamBarrierOnStream(parent_handle, &stream);
  return Wait(stream) ? 0 : 1;
}

int TeamSplit2d(TeamHandle parent_handle, int xrange, const void*, long, TeamHandle* xaxis_team, const void*, long,
                TeamHandle* yaxis_team) {
  *xaxis_team = *yaxis_team = kTeamInvalid;
  const Team* parent = Find(parent_handle);
  if (parent == nullptr || xrange <= 0) return 1;
  const int size = static_cast<int>(parent->members.size());
  const int columns = std::min(xrange, size);
  const int rank = IndexOf(*parent, MyPe());
  // All x teams are disjoint, so they share one row number; so do all y teams.
  const uint64_t rows = FreeRowsEverywhere(parent_handle, *parent) & ((uint64_t{1} << kMaxTeams) - 1);
  const uint64_t more_rows = rows & (rows - 1);
  if (more_rows == 0) return 1;
  std::vector<int> x_members, y_members;
  for (int i = 0; i < size; ++i) {
    if (i / columns == rank / columns) x_members.push_back(parent->members[i]);
    if (i % columns == rank % columns) y_members.push_back(parent->members[i]);
  }
  *xaxis_team = Install(__builtin_ctzll(rows), std::move(x_members));
  *yaxis_team = Install(__builtin_ctzll(more_rows), std::move(y_members));
  Stream stream;
  TeamBarrierOnStream(parent_handle, &stream);
  return Wait(stream) ? 0 : 1;
}

void TeamDestroy(TeamHandle handle) {
  Team* team = Find(handle);
  if (team == nullptr || handle == kTeamWorld) return;
  Stream stream;
  TeamBarrierOnStream(handle, &stream);
  Wait(stream);
  team->members.clear();
}

int TeamBarrierOnStream(TeamHandle handle, StreamHandle stream) {
  Team* team = Find(handle);
  if (team == nullptr) return 1;
  const uint64_t epoch = ++team->epoch;
  for (int pe : team->members) {
    Api().shmem.signal_op_on_stream(Word(sync_offset, handle, MyPe()), epoch, kSignalSet, pe, stream);
  }
  for (int pe : team->members) {
    Api().shmem.signal_wait_until_on_stream(Word(sync_offset, handle, pe), kCmpGe, epoch, stream);
  }
  return 0;
}

}  // namespace xla_shmem::nvshmem_double
