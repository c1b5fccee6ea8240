#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "xla/service/gpu/backend_configs.pb.h"
#include "xla/tsl/platform/status_macros.h"

namespace xla::gpu {

absl::StatusOr<bool> SetCollectiveBackend(xla_shmem::Backend backend, HloInstruction* instruction) {
  ASSIGN_OR_RETURN(GpuBackendConfig config, instruction->backend_config<GpuBackendConfig>());
  google::protobuf::Message* collective = config.mutable_collective_backend_config();
  const google::protobuf::FieldDescriptor* field = collective->GetDescriptor()->FindFieldByName("backend");
  const google::protobuf::EnumValueDescriptor* nvshmem =
      field == nullptr || field->enum_type() == nullptr
          ? nullptr
          : field->enum_type()->FindValueByName(xla_shmem::BackendName(xla_shmem::Backend::kNvshmem));
  if (nvshmem == nullptr) return false;
  const google::protobuf::Reflection* reflection = collective->GetReflection();
  const bool is_nvshmem = reflection->GetEnumValue(*collective, field) == nvshmem->number();
  if (is_nvshmem == (backend == xla_shmem::Backend::kNvshmem)) return false;
  if (is_nvshmem) {
    reflection->ClearField(collective, field);
  } else {
    reflection->SetEnum(collective, field, nvshmem);
  }
  RETURN_IF_ERROR(instruction->set_backend_config(config));
  return true;
}

}  // namespace xla::gpu
