// Doubles NVSHMEM's teams (OpenSHMEM 1.5, chapter 9.4) for nvshmem_host_api.h: strided and 2-D splits, translation of
// PE numbers, barriers. Splits and `TeamDestroy` are collective over the parent and block; barriers are stream
// commands. All calls answer for the PE that the calling thread is bound to.
//
// A team owns one row of sync words in the symmetric heap. The PEs of the parent agree on a row that is free at all of
// them, as NVSHMEM does, so two live teams never share words.
#ifndef XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_TEAMS_H_
#define XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_TEAMS_H_

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/shm/heap.h"

namespace xla_shmem::nvshmem_double {

// Drops all teams and reserves the sync rows in `heap`. Returns false if the heap is too small.
bool ResetTeams(shm::Heap* heap);

int TeamMyPe(TeamHandle team);
int TeamNumPes(TeamHandle team);
int TeamTranslatePe(TeamHandle source_team, int source_pe, TeamHandle destination_team);
// 0 on success; non-zero for a bad range, or when no sync row is free at all PEs. PEs outside the new team get
// kTeamInvalid.
int TeamSplitStrided(TeamHandle parent, int start, int stride, int size, const void* config, long config_mask,
                     TeamHandle* new_team);
int TeamSplit2d(TeamHandle parent, int xrange, const void* xaxis_config, long xaxis_mask, TeamHandle* xaxis_team,
                const void* yaxis_config, long yaxis_mask, TeamHandle* yaxis_team);
void TeamDestroy(TeamHandle team);
int TeamBarrierOnStream(TeamHandle team, StreamHandle stream);

}  // namespace xla_shmem::nvshmem_double

#endif  // XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_TEAMS_H_
