// The assigner does not depend on the runtime; these tests compare its lists and limits with the runtime's.
#include <doctest/doctest.h>

#include <string>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;

TEST_CASE("CPUs and GPUs reduce exactly the types and kinds of the runtime's table") {
  const Topology topology = MakeTopology(2, 1, 8);
  const Transport cpus = CpuTransport(std::nullopt), gpus = GpuTransport({{0, 0}, {1, 0}});
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    for (int32_t number = 0; number <= 35; ++number) {
      const auto type = static_cast<ElementType>(number);
      for (const ReductionKind reduction : kReductionKinds) {
        CollectiveSpec spec = AllReduce({{0, 1}}, 4, topology);
        spec.op = op;
        spec.element_types = {type};
        spec.reduction = reduction;
        const std::string type_name = ElementTypeName(type), reduction_name = ReductionName(reduction);
        CAPTURE(type_name);
        CAPTURE(reduction_name);
        CHECK(!UnsupportedByTransport(spec, topology, cpus).has_value() == Supports(type, reduction));
        CHECK(!UnsupportedByTransport(spec, topology, gpus).has_value() == Supports(type, reduction));
      }
    }
  }
}

TEST_CASE("GPUs have the limits of the kernels") {
  const Transport gpus = GpuTransport({});
  CHECK(gpus.max_group == gpu::kMaxMembers);
  CHECK(gpus.max_all_to_all_arrays == gpu::kMaxParts);
}

}  // namespace
}  // namespace xla_shmem
