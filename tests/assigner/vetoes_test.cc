#include "xla_patch/assigner/vetoes.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

namespace xla_shmem {
namespace {

CollectiveSpec Spec(CollectiveOp op, std::optional<ReductionKind> reduction, std::vector<ElementType> types) {
  CollectiveSpec spec;
  spec.op = op;
  spec.reduction = reduction;
  spec.element_types = std::move(types);
  return spec;
}

TEST_CASE("XLA:CPU has no thunk for broadcasts and ragged all-to-alls") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    const bool is_missing = info.op == CollectiveOp::kCollectiveBroadcast || info.op == CollectiveOp::kRaggedAllToAll;
    CHECK(UnsupportedByXlaCpu(Spec(info.op, std::nullopt, {ElementType::kF32})).has_value() == is_missing);
  }
  CHECK(UnsupportedByXlaCpu(Spec(CollectiveOp::kRaggedAllToAll, std::nullopt, {ElementType::kF32})) ==
        "XLA:CPU has no thunk for ragged-all-to-all");
}

TEST_CASE("XLA:CPU has no xor, and no and and or of integers") {
  using E = ElementType;
  using R = ReductionKind;
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    CHECK(UnsupportedByXlaCpu(Spec(op, R::kXor, {E::kPred})) == "XLA:CPU has no reduction \"xor\" for pred");
    CHECK(UnsupportedByXlaCpu(Spec(op, R::kAnd, {E::kS32})) == "XLA:CPU has no reduction \"and\" for s32");
    CHECK(UnsupportedByXlaCpu(Spec(op, R::kOr, {E::kPred, E::kU8})) == "XLA:CPU has no reduction \"or\" for u8");
    for (const R reduction : {R::kSum, R::kProd, R::kMin, R::kMax, R::kAnd, R::kOr}) {
      CHECK_FALSE(UnsupportedByXlaCpu(Spec(op, reduction, {E::kPred})).has_value());
    }
    CHECK_FALSE(UnsupportedByXlaCpu(Spec(op, R::kMax, {E::kS32, E::kF32})).has_value());
  }
}

}  // namespace
}  // namespace xla_shmem
