#include "xla_patch/thunks/gpu/two_shot.h"

#include <algorithm>
#include <utility>

namespace xla_shmem::gpu {

void RunTwoShot(const std::vector<size_t>& buffer_bytes, const TwoShotGeometry& geometry,
                const TwoShotActions& actions) {
  // chunks[i]: the chunks that member i owns.
  std::vector<std::vector<std::vector<Piece>>> chunks(geometry.members);
  size_t steps = 0;
  for (int i = 0; i < geometry.members; ++i) {
    const std::vector<ByteRange> part = PartOfBuffers(buffer_bytes, i, geometry.members);
    ChunkCursor cursor(&part, geometry.slot_bytes);
    for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
      chunks[i].push_back(std::move(pieces));
    }
    steps = std::max(steps, chunks[i].size());
  }
  const std::vector<std::vector<Piece>>& mine = chunks[geometry.my_index];
  // Step t: contribute chunk t, reduce chunk t - lag, collect chunk t - 2 lag. A channel then holds at most 2 lag + 1
  // messages that its receiver cannot consume without this PE, hence this lag (proof in docs/protocol.md).
  const size_t lag = (geometry.num_slots - 1) / 2;
  for (size_t t = 0; t < steps + 2 * lag; ++t) {
    for (int i = 0; i < geometry.members; ++i) {
      if (i != geometry.my_index && t < chunks[i].size()) actions.contribute(i, chunks[i][t]);
    }
    if (t >= lag && t - lag < mine.size()) actions.reduce_and_share(mine[t - lag]);
    for (int i = 0; i < geometry.members; ++i) {
      if (i == geometry.my_index || t < 2 * lag || t - 2 * lag >= chunks[i].size()) continue;
      actions.collect(i, chunks[i][t - 2 * lag]);
    }
  }
}

}  // namespace xla_shmem::gpu
