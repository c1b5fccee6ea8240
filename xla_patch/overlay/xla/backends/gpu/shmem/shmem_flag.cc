#include "xla/backends/gpu/shmem/shmem_flag.h"

#include <atomic>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "xla/tsl/util/command_line_flags.h"

namespace xla::gpu {
namespace {

constexpr char kName[] = "xla_gpu_experimental_enable_nvshmem";

std::atomic<bool> is_requested{false};

}  // namespace

tsl::Flag NvshmemFlag() {
  const auto set = [](bool value) {
    is_requested = value;
    return true;
  };
  return tsl::Flag(kName, set, is_requested, "Runs small all-reduces and all collective-permutes on NVSHMEM.");
}

bool IsNvshmemRequested(const google::protobuf::Message& debug_options) {
  const google::protobuf::FieldDescriptor* field = debug_options.GetDescriptor()->FindFieldByName(kName);
  return field == nullptr ? is_requested.load() : debug_options.GetReflection()->GetBool(debug_options, field);
}

}  // namespace xla::gpu
