#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "xla/service/gpu/backend_configs.pb.h"
#include "xla/tsl/platform/status_macros.h"

namespace xla::gpu {
namespace {

// An enum field of a message by its name, which may not exist.
class EnumField {
 public:
  EnumField(google::protobuf::Message* message, const std::string& name)
      : message_(message), field_(message->GetDescriptor()->FindFieldByName(name)) {}

  bool Has(const std::string& value) const { return Find(value) != nullptr; }

  bool Is(const std::string& value) const {
    return Has(value) && message_->GetReflection()->GetEnumValue(*message_, field_) == Find(value)->number();
  }

  void Set(const std::string& value) {
    if (Has(value)) {
      message_->GetReflection()->SetEnum(message_, field_, Find(value));
    }
  }

  void Clear() {
    if (field_ != nullptr) {
      message_->GetReflection()->ClearField(message_, field_);
    }
  }

 private:
  const google::protobuf::EnumValueDescriptor* Find(const std::string& value) const {
    return field_ == nullptr || field_->enum_type() == nullptr ? nullptr : field_->enum_type()->FindValueByName(value);
  }

  google::protobuf::Message* message_;
  const google::protobuf::FieldDescriptor* field_;
};

}  // namespace

absl::StatusOr<bool> SetCollectiveBackend(xla_shmem::Backend backend, HloInstruction* instruction) {
  const std::string nvshmem = xla_shmem::BackendName(xla_shmem::Backend::kNvshmem);
  ASSIGN_OR_RETURN(GpuBackendConfig config, instruction->backend_config<GpuBackendConfig>());
  EnumField current(config.mutable_collective_backend_config(), "backend");
  EnumField mode(config.mutable_collective_backend_config(), "collectives_mode");
  const bool is_nvshmem = backend == xla_shmem::Backend::kNvshmem;
  if (!current.Has(nvshmem) || current.Is(nvshmem) == is_nvshmem) {
    return false;
  }
  if (is_nvshmem) {
    current.Set(nvshmem);
    mode.Set("COLLECTIVES_SYMMETRIC_MEMORY");
  } else {
    current.Clear();
    mode.Clear();
  }
  RETURN_IF_ERROR(instruction->set_backend_config(config));
  return true;
}

}  // namespace xla::gpu
