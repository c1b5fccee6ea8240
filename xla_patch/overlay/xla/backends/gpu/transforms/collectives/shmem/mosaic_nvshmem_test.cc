#include "xla/backends/gpu/transforms/collectives/shmem/mosaic_nvshmem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"

namespace xla::gpu {
namespace {

using ::testing::HasSubstr;

absl::Status Refused(absl::string_view target, absl::string_view config) {
  const auto module = ParseEntry(absl::StrCat("  ROOT kernel = f32[4] custom-call(p), custom_call_target=\"", target,
                                              "\", api_version=API_VERSION_ORIGINAL, backend_config=\"", config, "\""));
  return RefuseMosaicWithNvshmem(*module);
}

TEST(MosaicNvshmemTest, AKernelThatCallsNvshmemIsRefusedByName) {
  for (const absl::string_view target : {"mosaic_gpu", "mosaic_gpu_v2"}) {
    const absl::Status status = Refused(target, "extern nvshmem_ptr");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("kernel (", target, ") calls NVSHMEM")));
  }
}

TEST(MosaicNvshmemTest, OtherKernelsAreNot) {
  EXPECT_TRUE(Refused("mosaic_gpu_v2", "multimem_parameters").ok());
  EXPECT_TRUE(Refused("my_kernel", "nvshmem").ok());
}

}  // namespace
}  // namespace xla::gpu
