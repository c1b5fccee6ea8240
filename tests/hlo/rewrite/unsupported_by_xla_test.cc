#include "xla_patch/hlo/rewrite/unsupported_by_xla.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

namespace xla_shmem::hlo {
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
    CHECK(UnsupportedByXla(Spec(info.op, std::nullopt, {ElementType::kF32}), Lowering::kCpu).has_value() == is_missing);
  }
  CHECK(UnsupportedByXla(Spec(CollectiveOp::kRaggedAllToAll, std::nullopt, {ElementType::kF32}), Lowering::kCpu) ==
        "XLA:CPU has no thunk for ragged-all-to-all");
}

TEST_CASE("XLA:CPU has no xor, and no and and or of integers") {
  using E = ElementType;
  using R = ReductionKind;
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    CHECK(UnsupportedByXla(Spec(op, R::kXor, {E::kPred}), Lowering::kCpu) ==
          "XLA:CPU has no reduction \"xor\" for pred");
    CHECK(UnsupportedByXla(Spec(op, R::kAnd, {E::kS32}), Lowering::kCpu) == "XLA:CPU has no reduction \"and\" for s32");
    CHECK(UnsupportedByXla(Spec(op, R::kOr, {E::kPred, E::kU8}), Lowering::kCpu) ==
          "XLA:CPU has no reduction \"or\" for u8");
    for (const R reduction : {R::kSum, R::kProd, R::kMin, R::kMax, R::kAnd, R::kOr}) {
      CHECK_FALSE(UnsupportedByXla(Spec(op, reduction, {E::kPred}), Lowering::kCpu).has_value());
    }
    CHECK_FALSE(UnsupportedByXla(Spec(op, R::kMax, {E::kS32, E::kF32}), Lowering::kCpu).has_value());
  }
}

TEST_CASE("for XLA:GPU and for modules that are not rewritten nothing is known") {
  const CollectiveSpec spec = Spec(CollectiveOp::kRaggedAllToAll, std::nullopt, {ElementType::kF32});
  CHECK_FALSE(UnsupportedByXla(spec, Lowering::kGpu).has_value());
  CHECK_FALSE(UnsupportedByXla(spec, Lowering::kNone).has_value());
}

}  // namespace
}  // namespace xla_shmem::hlo
