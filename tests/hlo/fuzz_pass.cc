// Drives the whole reader, pass and editor with arbitrary bytes. Built with clang's libFuzzer, or with
// mutation_driver.cc where there is none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/analysis/inspect.h"
#include "xla_patch/hlo/analysis/timeline.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace {

xla_shmem::PassOptions MakeOptions(xla_shmem::Lowering lowering) {
  xla_shmem::PassOptions options;
  std::vector<xla_shmem::DeviceLocation> devices;
  std::unordered_map<int64_t, int32_t> reach;
  for (int32_t i = 0; i < 8; ++i) {
    devices.push_back({i, i / 2, 0, i / 4, 7 - i});
    reach[i] = 0;
  }
  options.topology = *xla_shmem::Topology::Create(devices);
  options.transport =
      lowering == xla_shmem::Lowering::kGpu ? xla_shmem::GpuTransport(reach) : xla_shmem::CpuTransport(reach);
  options.assign.profile = xla_shmem::Profile::kDomain;
  options.lowering = lowering;
  return options;
}

xla_shmem::PassOptions ListingAll(xla_shmem::Lowering lowering) {
  xla_shmem::PassOptions options = MakeOptions(lowering);
  options.assign.hierarchical = xla_shmem::Hierarchical::kOn;
  for (const xla_shmem::CollectiveOpInfo& info : xla_shmem::kCollectiveOps) {
    options.assign.ops.push_back({info.op, std::nullopt});
  }
  return options;
}

xla_shmem::PassOptions OneAtATime() {
  xla_shmem::PassOptions options = ListingAll(xla_shmem::Lowering::kCpu);
  options.one_at_a_time = true;
  return options;
}

xla_shmem::PassOptions Marking(bool one_at_a_time) {
  xla_shmem::PassOptions options = MakeOptions(xla_shmem::Lowering::kCpu);
  options.one_at_a_time = one_at_a_time;
  options.mark_default_collectives = true;
  return options;
}

xla_shmem::PassOptions MakeTunedOptions() {
  using xla_shmem::CollectiveOp;
  xla_shmem::PassOptions options = MakeOptions(xla_shmem::Lowering::kCpu);
  options.assign.profile = xla_shmem::Profile::kTuned;
  // NVSHMEM below some size between the two, DEFAULT above.
  options.assign.tuning = *xla_shmem::TuningTable::Create(
      {{CollectiveOp::kAllReduce, xla_shmem::ElementType::kF32, 2, 64, {1, 1, 1}, {9, 9, 9}},
       {CollectiveOp::kAllReduce, xla_shmem::ElementType::kF32, 2, 4096, {9, 9, 9}, {1, 1, 1}},
       {CollectiveOp::kCollectivePermute, xla_shmem::ElementType::kF32, 4, 64, {1, 1, 1}, {9, 9, 9}}});
  return options;
}

xla_shmem::PassOptions MakeCopyingOptions() {
  xla_shmem::PassOptions options = MakeOptions(xla_shmem::Lowering::kGpu);
  options.copy_aliased_parameters = true;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const xla_shmem::PassOptions kOptions[] = {MakeOptions(xla_shmem::Lowering::kNone),
                                                    MakeOptions(xla_shmem::Lowering::kCpu),
                                                    MakeOptions(xla_shmem::Lowering::kGpu),
                                                    MakeCopyingOptions(),
                                                    ListingAll(xla_shmem::Lowering::kCpu),
                                                    ListingAll(xla_shmem::Lowering::kGpu),
                                                    OneAtATime(),
                                                    Marking(false),
                                                    Marking(true),
                                                    MakeTunedOptions()};
  const std::string_view module(reinterpret_cast<const char*>(data), size);
  const auto records = xla_shmem::InspectModule(module);
  static_cast<void>(xla_shmem::ReadTimeline(module));
  for (const xla_shmem::PassOptions& options : kOptions) {
    // One explanation for each record.
    const auto explanations = xla_shmem::ExplainModule(module, options);
    if (explanations.ok() && (!records.ok() || explanations->size() != records->size())) {
      std::abort();
    }
    // Inspect reads every module that the pass accepts, and a second run changes nothing.
    const auto result = xla_shmem::RunPass(module, options);
    if (result.ok() && !records.ok()) {
      std::abort();
    }
    if (result.ok() && result->changed) {
      const auto again = xla_shmem::RunPass(result->module, options);
      if (!again.ok() || again->changed) {
        std::abort();
      }
    }
  }
  return 0;
}
