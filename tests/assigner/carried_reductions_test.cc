// The assigner knows nothing of the runtime, so what it believes of it is held against it here.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;

TEST_CASE("CPUs reduce what the runtime's table of reductions has, and nothing else") {
  const Topology topology = MakeTopology(2, 1, 8);
  const Transport transport = CpuTransport(std::nullopt);
  const std::vector<std::pair<int32_t, ElementType>> types = {
      {1, ElementType::kPred},        {2, ElementType::kS8},          {3, ElementType::kS16},
      {4, ElementType::kS32},         {5, ElementType::kS64},         {6, ElementType::kU8},
      {7, ElementType::kU16},         {8, ElementType::kU32},         {9, ElementType::kU64},
      {10, ElementType::kF16},        {11, ElementType::kF32},        {12, ElementType::kF64},
      {15, ElementType::kC64},        {16, ElementType::kBf16},       {18, ElementType::kC128},
      {19, ElementType::kF8E5M2},     {20, ElementType::kF8E4M3Fn},   {23, ElementType::kF8E4M3B11Fnuz},
      {24, ElementType::kF8E5M2Fnuz}, {25, ElementType::kF8E4M3Fnuz}, {28, ElementType::kF8E4M3},
      {29, ElementType::kF8E3M4}};
  const std::vector<std::pair<Reduction, ReductionKind>> reductions = {
      {Reduction::kSum, ReductionKind::kSum}, {Reduction::kProd, ReductionKind::kProd},
      {Reduction::kMin, ReductionKind::kMin}, {Reduction::kMax, ReductionKind::kMax},
      {Reduction::kAnd, ReductionKind::kAnd}, {Reduction::kOr, ReductionKind::kOr},
      {Reduction::kXor, ReductionKind::kXor}};
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kReduceScatter}) {
    for (const auto& [type, element] : types) {
      for (const auto& [reduction, kind] : reductions) {
        CollectiveSpec spec = AllReduce({{0, 1}}, 4, topology);
        spec.op = op;
        spec.element_types = {type};
        spec.reduction = reduction;
        // C++17 captures no structured binding.
        const std::string type_name = ElementTypeName(type), reduction_name = ReductionName(reduction);
        CAPTURE(type_name);
        CAPTURE(reduction_name);
        CHECK(Veto(spec, topology, transport).empty() == Supports(element, kind));
      }
    }
  }
}

}  // namespace
}  // namespace xla_shmem
