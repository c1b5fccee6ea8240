// Drives the whole reader, pass and editor with arbitrary bytes. Built with clang's libFuzzer, or with
// mutation_driver.cc where there is none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/analysis/explain.h"
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
  std::string error;
  if (!xla_shmem::Topology::Create(devices, &options.topology, &error)) {
    std::abort();
  }
  options.transport = xla_shmem::CpuTransport(reach);
  options.assign.profile = xla_shmem::Profile::kDomain;
  options.lowering = lowering;
  return options;
}

xla_shmem::PassOptions ListingAll(xla_shmem::Lowering lowering) {
  xla_shmem::PassOptions options = MakeOptions(lowering);
  for (const xla_shmem::CollectiveOpInfo& info : xla_shmem::kCollectiveOps) {
    options.assign.ops.push_back({info.op, std::nullopt});
  }
  return options;
}

xla_shmem::PassOptions MakeTunedOptions() {
  using xla_shmem::CollectiveOp;
  xla_shmem::PassOptions options = MakeOptions(xla_shmem::Lowering::kCpu);
  options.assign.profile = xla_shmem::Profile::kTuned;
  std::string error;
  // NVSHMEM below some size between the two, DEFAULT above.
  const bool ok = xla_shmem::TuningTable::Create(
      {{CollectiveOp::kAllReduce, xla_shmem::ElementType::kF32, 2, 64, {1, 1, 1}, {9, 9, 9}},
       {CollectiveOp::kAllReduce, xla_shmem::ElementType::kF32, 2, 4096, {9, 9, 9}, {1, 1, 1}},
       {CollectiveOp::kCollectivePermute, xla_shmem::ElementType::kF32, 4, 64, {1, 1, 1}, {9, 9, 9}}},
      &options.assign.tuning, &error);
  if (!ok) {
    std::abort();
  }
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
                                                    MakeTunedOptions()};
  const std::string_view module(reinterpret_cast<const char*>(data), size);
  std::vector<xla_shmem::CollectiveRecord> records;
  std::string error;
  const bool readable = xla_shmem::InspectModule(module, &records, &error);
  std::vector<xla_shmem::ComputationSchedule> schedules;
  xla_shmem::ReadTimeline(module, &schedules, &error);
  for (const xla_shmem::PassOptions& options : kOptions) {
    std::vector<xla_shmem::Explanation> explanations;
    // It tells of what is listed, one for one.
    if (xla_shmem::ExplainModule(module, options, &explanations, &error) &&
        (!readable || explanations.size() != records.size())) {
      std::abort();
    }
    xla_shmem::PassResult result;
    const bool ok = xla_shmem::RunPass(module, options, &result, &error);
    // Whatever the pass accepts it must leave readable and settled.
    if (ok && !readable) {
      std::abort();
    }
    if (ok && result.changed) {
      xla_shmem::PassResult again;
      if (!xla_shmem::RunPass(result.module, options, &again, &error) || again.changed) {
        std::abort();
      }
    }
  }
  return 0;
}
