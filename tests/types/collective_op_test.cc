#include "xla_patch/types/collective_op.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace xla_shmem {
namespace {

TEST_CASE("Every op is found by the name that HLO gives it") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    CHECK(OpNamed(info.name) == info.op);
    CHECK(std::string(OpName(info.op)) == info.name);
  }
  CHECK(std::string(OpName(CollectiveOp::kRaggedAllToAll)) == "ragged-all-to-all");
  CHECK_FALSE(OpNamed("all-reduce-start").has_value());
  CHECK_FALSE(OpNamed("permute").has_value());
  CHECK_FALSE(OpNamed("").has_value());
}

TEST_CASE("A platform that carries an op has call targets for it, and no target stands twice") {
  std::set<std::string> targets;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    CAPTURE(info.name);
    const bool on_cpu = info.Has(op_trait::kOnCpu), on_gpu = info.Has(op_trait::kOnGpu);
    CHECK((on_cpu || on_gpu) == (*info.target != '\0'));
    CHECK(on_gpu == (*info.start_target != '\0'));
    CHECK(on_gpu == (*info.done_target != '\0'));
    for (const char* target : {info.target, info.start_target, info.done_target}) {
      CHECK((*target == '\0' || targets.insert(target).second));
      CHECK((*target == '\0' || std::string(target).rfind("xla_shmem.", 0) == 0));
    }
  }
}

TEST_CASE("All-reduce and reduce-scatter reduce, and pairs say who takes part in a permute alone") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    CAPTURE(info.name);
    CHECK(IsReducing(info.op) == (info.op == CollectiveOp::kAllReduce || info.op == CollectiveOp::kReduceScatter));
    CHECK(UsesPairs(info.op) == (info.op == CollectiveOp::kCollectivePermute));
  }
}

TEST_CASE("A gather has a part of the result for each member, a scatter one of the operand, an all-to-all both") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    CAPTURE(info.name);
    const bool to_all = info.op == CollectiveOp::kAllToAll;
    CHECK(OperandParts(info.op, 5) == (to_all || info.op == CollectiveOp::kReduceScatter ? 5 : 1));
    CHECK(ResultParts(info.op, 5) == (to_all || info.op == CollectiveOp::kAllGather ? 5 : 1));
  }
}

}  // namespace
}  // namespace xla_shmem
