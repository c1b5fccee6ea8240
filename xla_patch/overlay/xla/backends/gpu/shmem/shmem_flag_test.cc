#include "xla/backends/gpu/shmem/shmem_flag.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "xla/service/gpu/backend_configs.pb.h"
#include "xla/tsl/util/command_line_flags.h"
#include "xla/xla.pb.h"

namespace xla::gpu {
namespace {

// XLA 0.11.0 has no field any more.
TEST(ShmemFlagTest, TheFieldOfTheModuleDecidesWhereThereIsOne) {
  DebugOptions options;
  EXPECT_FALSE(IsNvshmemRequested(options));
  if (const auto* field = DebugOptions::descriptor()->FindFieldByName("xla_gpu_experimental_enable_nvshmem")) {
    options.GetReflection()->SetBool(&options, field, true);
    EXPECT_TRUE(IsNvshmemRequested(options));
  }
}

TEST(ShmemFlagTest, WithoutTheFieldTheFlagOfTheProcessDecides) {
  const GpuBackendConfig without_field;
  EXPECT_FALSE(IsNvshmemRequested(without_field));
  for (const bool value : {true, false}) {
    std::vector<std::string> given = {value ? "--xla_gpu_experimental_enable_nvshmem"
                                            : "--xla_gpu_experimental_enable_nvshmem=false"};
    ASSERT_TRUE(tsl::Flags::Parse(given, {NvshmemFlag()}));
    EXPECT_TRUE(given.empty());  // it is known
    EXPECT_EQ(IsNvshmemRequested(without_field), value);
  }
}

}  // namespace
}  // namespace xla::gpu
