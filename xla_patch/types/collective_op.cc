#include "xla_patch/types/collective_op.h"

#include <iterator>

namespace xla_shmem {
namespace {

constexpr bool IsInOrder() {
  for (size_t i = 0; i < std::size(kCollectiveOps); ++i) {
    if (kCollectiveOps[i].op != static_cast<CollectiveOp>(i)) return false;
  }
  return true;
}
static_assert(IsInOrder(), "InfoOf finds a row by the op's number");

}  // namespace

std::optional<CollectiveOp> OpNamed(std::string_view name) {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (name == info.name) return info.op;
  }
  return std::nullopt;
}

}  // namespace xla_shmem
