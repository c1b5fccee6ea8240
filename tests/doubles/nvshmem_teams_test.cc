#include "tests/doubles/nvshmem_teams.h"

#include <doctest/doctest.h>

#include <atomic>
#include <climits>
#include <memory>
#include <set>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/shm/test_heap.h"

namespace xla_shmem::nvshmem_double {
namespace {

const NvshmemApi& shmem = Api().shmem;

void OnPes(int n, const std::function<void(int pe)>& body) {
  const auto heap = testing::HeapOfOneProcess(n, 1 << 20);
  REQUIRE(SetHeap(heap.get()));
  testing::RunPes(n, body);
  SetHeap(nullptr);
}

int SplitStrided(TeamHandle parent, int start, int stride, int size, TeamHandle* team) {
  return shmem.team_split_strided(parent, start, stride, size, nullptr, 0, team);
}

// All members of `team` meet; none may pass before all have arrived.
void CheckBarrier(TeamHandle team, std::atomic<int>& arrived, int expected) {
  Stream stream;
  ++arrived;
  REQUIRE(shmem.barrier_on_stream(team, &stream) == 0);
  REQUIRE(Synchronize(stream, std::chrono::steady_clock::now() + std::chrono::seconds(30), {}).ok());
  CHECK(arrived >= expected);
}

TEST_CASE("The world team holds every PE under its own number") {
  OnPes(3, [](int pe) {
    CHECK(shmem.team_n_pes(kTeamWorld) == 3);
    CHECK(shmem.team_my_pe(kTeamWorld) == pe);
    CHECK(shmem.team_translate_pe(kTeamWorld, 2, kTeamWorld) == 2);
  });
}

TEST_CASE("A strided split holds every second PE, and the others get no team") {
  std::atomic<int> arrived{0};
  OnPes(6, [&](int pe) {
    TeamHandle team = 77;
    REQUIRE(SplitStrided(kTeamWorld, 1, 2, 3, &team) == 0);
    if (pe % 2 == 0) {
      CHECK(team == kTeamInvalid);
      CHECK(shmem.team_my_pe(team) == -1);
      CHECK(shmem.team_n_pes(team) == -1);
    } else {
      CHECK(shmem.team_n_pes(team) == 3);
      CHECK(shmem.team_my_pe(team) == pe / 2);
      CHECK(shmem.team_translate_pe(team, 2, kTeamWorld) == 5);
      CHECK(shmem.team_translate_pe(kTeamWorld, 3, team) == 1);
      CHECK(shmem.team_translate_pe(kTeamWorld, 2, team) == -1);
      CHECK(shmem.team_translate_pe(team, 3, kTeamWorld) == -1);
      CheckBarrier(team, arrived, 3);
    }
  });
}

TEST_CASE("A negative stride numbers the members backwards") {
  OnPes(4, [](int pe) {
    TeamHandle team;
    REQUIRE(SplitStrided(kTeamWorld, 3, -1, 4, &team) == 0);
    CHECK(shmem.team_my_pe(team) == 3 - pe);
  });
}

TEST_CASE("Splits out of range fail on all PEs alike and do no harm") {
  OnPes(3, [](int) {
    TeamHandle team = 5;
    const int bad[][3] = {{0, 1, 4}, {-1, 1, 2}, {3, 1, 1}, {0, 2, 3}, {0, 0, 2}, {0, 1, 0}, {0, INT_MAX, INT_MAX},
                          {0, -1, 2}};
    for (const auto& [start, stride, size] : bad) {
      CHECK(SplitStrided(kTeamWorld, start, stride, size, &team) != 0);
      CHECK(team == kTeamInvalid);
    }
    CHECK(SplitStrided(kTeamInvalid, 0, 1, 1, &team) != 0);
    CHECK(SplitStrided(kTeamWorld, 0, 1, 3, &team) == 0);
  });
}

TEST_CASE("A team of a team counts in its parent's numbers") {
  OnPes(8, [](int pe) {
    TeamHandle even = kTeamInvalid, fours = kTeamInvalid;
    REQUIRE(SplitStrided(kTeamWorld, 0, 2, 4, &even) == 0);
    if (pe % 2 != 0) return;
    REQUIRE(SplitStrided(even, 0, 2, 2, &fours) == 0);
    if (pe % 4 == 0) {
      CHECK(shmem.team_my_pe(fours) == pe / 4);
      CHECK(shmem.team_translate_pe(fours, 1, kTeamWorld) == 4);
    } else {
      CHECK(fours == kTeamInvalid);
    }
  });
}

TEST_CASE("A 2-D split gives every PE its row and its column, the last row being short") {
  std::atomic<int> rows[3] = {}, columns[3] = {};
  OnPes(8, [&](int pe) {
    TeamHandle x, y;
    REQUIRE(shmem.team_split_2d(kTeamWorld, 3, nullptr, 0, &x, nullptr, 0, &y) == 0);
    CHECK(shmem.team_my_pe(x) == pe % 3);
    CHECK(shmem.team_my_pe(y) == pe / 3);
    CHECK(shmem.team_n_pes(x) == (pe < 6 ? 3 : 2));
    CHECK(shmem.team_n_pes(y) == (pe % 3 < 2 ? 3 : 2));
    for (int round = 1; round <= 20; ++round) {
      CheckBarrier(x, rows[pe / 3], round * (pe < 6 ? 3 : 2));
      CheckBarrier(y, columns[pe % 3], round * (pe % 3 < 2 ? 3 : 2));
    }
  });
}

TEST_CASE("Barriers of rows and columns back to back, undrained between, keep each team in step and no other") {
  constexpr int kRounds = 200;
  std::atomic<int> rounds_of[4] = {};
  OnPes(4, [&](int pe) {
    TeamHandle row = kTeamInvalid;
    TeamHandle column = kTeamInvalid;
    REQUIRE(shmem.team_split_2d(kTeamWorld, 2, nullptr, 0, &row, nullptr, 0, &column) == 0);
    struct Round {
      std::atomic<int>* mine;
      std::atomic<int>* neighbour;
      bool in_step;
    };
    // After a row's barrier the neighbour in the row is in this round or past it; the columns' have no part in that.
    Round round{&rounds_of[pe], &rounds_of[pe ^ 1], true};
    Stream stream;
    for (int i = 0; i < kRounds; ++i) {
      Api().stream.launch_host_func(&stream, [](void* argument) { ++*static_cast<Round*>(argument)->mine; }, &round);
      REQUIRE(shmem.barrier_on_stream(row, &stream) == 0);
      Api().stream.launch_host_func(
          &stream,
          [](void* argument) {
            auto* checked = static_cast<Round*>(argument);
            checked->in_step &= *checked->neighbour >= *checked->mine;
          },
          &round);
      REQUIRE(shmem.barrier_on_stream(column, &stream) == 0);
    }
    REQUIRE(Synchronize(stream, std::chrono::steady_clock::now() + std::chrono::seconds(30), {}).ok());
    CHECK(round.in_step);
    CHECK(rounds_of[pe] == kRounds);
  });
}

TEST_CASE("A team of one meets itself at once") {
  OnPes(3, [&](int pe) {
    TeamHandle alone = kTeamInvalid;
    REQUIRE(SplitStrided(kTeamWorld, 1, 1, 1, &alone) == 0);
    if (pe != 1) return;
    CHECK(shmem.team_n_pes(alone) == 1);
    Stream stream;
    for (int i = 0; i < 10; ++i) REQUIRE(shmem.barrier_on_stream(alone, &stream) == 0);
    CHECK(Api().stream.query(&stream));
  });
}

TEST_CASE("A row as long as the parent makes one row and columns of one") {
  OnPes(3, [](int) {
    TeamHandle x, y;
    REQUIRE(shmem.team_split_2d(kTeamWorld, 100, nullptr, 0, &x, nullptr, 0, &y) == 0);
    CHECK(shmem.team_n_pes(x) == 3);
    CHECK(shmem.team_n_pes(y) == 1);
    CHECK(shmem.team_split_2d(kTeamWorld, 0, nullptr, 0, &x, nullptr, 0, &y) != 0);
  });
}

TEST_CASE("Destroyed teams give their rows back, and a reused row starts afresh") {
  std::atomic<int> arrived{0};
  OnPes(4, [&](int pe) {
    int expected = 0;
    for (int round = 0; round < 3 * kMaxTeams; ++round) {
      TeamHandle team;
      const int size = 1 + round % 4;
      REQUIRE(SplitStrided(kTeamWorld, 0, 1, size, &team) == 0);
      expected += size;
      if (pe >= size) continue;
      CheckBarrier(team, arrived, expected);
      shmem.team_destroy(team);
      CHECK(shmem.team_n_pes(team) == -1);
    }
  });
}

TEST_CASE("When no row is free the split fails on all PEs, and works again after a destroy") {
  OnPes(2, [](int) {
    std::vector<TeamHandle> teams;
    TeamHandle team;
    while (SplitStrided(kTeamWorld, 0, 1, 2, &team) == 0) teams.push_back(team);
    CHECK(teams.size() == kMaxTeams - 1);
    CHECK(std::set<TeamHandle>(teams.begin(), teams.end()).size() == teams.size());
    CHECK(team == kTeamInvalid);
    shmem.team_destroy(teams[7]);
    REQUIRE(SplitStrided(kTeamWorld, 0, 1, 2, &team) == 0);
    CHECK(team == teams[7]);
  });
}

TEST_CASE("Destroying the world or nothing at all is ignored") {
  OnPes(2, [](int) {
    shmem.team_destroy(kTeamWorld);
    shmem.team_destroy(kTeamInvalid);
    shmem.team_destroy(17);
    CHECK(shmem.team_n_pes(kTeamWorld) == 2);
    Stream stream;
    CHECK(shmem.barrier_on_stream(17, &stream) != 0);
  });
}

}  // namespace
}  // namespace xla_shmem::nvshmem_double
