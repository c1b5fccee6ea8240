#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_MODULES_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_MODULES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/parser/hlo_parser.h"
#include "xla/service/computation_placer.h"
#include "xla/service/hlo_module_config.h"

namespace xla::gpu {

constexpr absl::string_view kReductions = R"(
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
)";

// Null, with a test failure, for text that XLA does not parse.
inline std::unique_ptr<HloModule> Parse(absl::string_view text, int64_t replicas, int64_t partitions) {
  HloModuleConfig config;
  config.set_replica_count(replicas);
  config.set_num_partitions(partitions);
  config.set_use_spmd_partitioning(partitions > 1);
  auto module = ParseAndReturnUnverifiedModule(text, config);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  return module.ok() ? *std::move(module) : nullptr;
}

// An entry with f32[4] parameters p and q and the given lines, for `devices` partitions.
inline std::unique_ptr<HloModule> ParseEntry(absl::string_view lines, int64_t devices = 8) {
  return Parse(absl::StrCat("HloModule m\n", kReductions,
                            "ENTRY main {\n  p = f32[4] parameter(0)\n  q = f32[4] parameter(1)\n", lines, "\n}\n"),
               /*replicas=*/1, devices);
}

inline HloInstruction* Find(const HloModule& module, absl::string_view name) {
  for (HloComputation* computation : module.computations()) {
    for (HloInstruction* instruction : computation->instructions()) {
      if (instruction->name() == name) return instruction;
    }
  }
  ADD_FAILURE() << "no instruction " << name << " in\n" << module.ToString();
  return nullptr;
}

// by_partition[p][r] is the device of replica r of partition p.
inline void PlaceOn(const std::vector<std::vector<int64_t>>& by_partition, HloModule* module) {
  DeviceAssignment assignment(static_cast<int>(by_partition[0].size()), static_cast<int>(by_partition.size()));
  for (size_t partition = 0; partition < by_partition.size(); ++partition) {
    for (size_t replica = 0; replica < by_partition[partition].size(); ++replica) {
      assignment(replica, partition) = by_partition[partition][replica];
    }
  }
  module->mutable_config().set_static_device_assignment(assignment);
}

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_TEST_MODULES_H_
