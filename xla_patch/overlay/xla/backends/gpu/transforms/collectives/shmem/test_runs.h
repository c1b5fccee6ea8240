#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_RUNS_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_RUNS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/service/hlo_verifier.h"

namespace xla::gpu {

inline xla_shmem::Topology JobOf(int64_t devices, int64_t per_process, int64_t per_domain) {
  auto topology = UniformTopology(devices, per_process, per_domain);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

// A job whose transport reaches every device.
inline ShmemJob Job(int64_t devices, int64_t per_process, int64_t per_domain) {
  ShmemJob job;
  job.topology = JobOf(devices, per_process, per_domain);
  std::unordered_map<int64_t, int32_t> reach;
  for (const int64_t device : job.topology.device_ids()) reach[device] = 0;
  job.transport = xla_shmem::PatchedXlaTransport(std::move(reach));
  return job;
}

// Runs the pass between two runs of XLA's verifier.
inline bool RunAssigner(const ShmemJob& job, HloModule* module) {
  HloPassPipeline pipeline("test");
  pipeline.AddInvariantChecker<HloVerifier>(/*layout_sensitive=*/false, /*allow_mixed_precision=*/false);
  pipeline.AddPass<ShmemBackendAssigner>(job);
  const auto changed = pipeline.Run(module);
  EXPECT_TRUE(changed.ok()) << changed.status();
  return changed.ok() && *changed;
}

inline std::string Attribute(const HloModule& module, absl::string_view name, absl::string_view key) {
  return Find(module, name)->get_frontend_attribute(absl::StrCat("xla_shmem.", key)).value_or("");
}

inline std::string BackendOf(const HloModule& module, absl::string_view name = "c") {
  return IsOnNvshmem(*Find(module, name)) ? "NVSHMEM" : "DEFAULT";
}

// The decision for instruction c, as "backend rule", or "backend rule; veto".
inline std::string Said(const HloModule& module, absl::string_view name = "c") {
  const std::string veto = Attribute(module, name, "veto");
  EXPECT_EQ(Attribute(module, name, "lowered"), BackendOf(module, name));
  EXPECT_FALSE(Attribute(module, name, "reason").empty());
  return absl::StrCat(Attribute(module, name, "backend"), " ", Attribute(module, name, "rule"),
                      veto.empty() ? "" : absl::StrCat("; ", veto));
}

inline std::unique_ptr<HloModule> AllReduceOf(absl::string_view shape,
                                              absl::string_view groups = "{{0,1,2,3,4,5,6,7}}") {
  const std::string type(shape.substr(0, shape.find('[')));
  return Parse(
      absl::StrCat("HloModule m\nf { a = ", type, "[] parameter(0)  b = ", type, "[] parameter(1)  ROOT r = ", type,
                   "[] add(a, b) }\nENTRY main {\n  p = ", shape, " parameter(0)\n  ROOT c = ", shape,
                   " all-reduce(p), channel_id=1, use_global_device_ids=true, to_apply=f, replica_groups=", groups,
                   "\n}"),
      1, 8);
}

inline std::unique_ptr<HloModule> PermuteOf(absl::string_view shape, absl::string_view pairs = "{{0,1},{1,0}}") {
  return Parse(absl::StrCat("HloModule m\nENTRY main {\n  p = ", shape, " parameter(0)\n  ROOT c = ", shape,
                            " collective-permute(p), channel_id=1, source_target_pairs=", pairs, "\n}"),
               1, 8);
}

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_RUNS_H_
