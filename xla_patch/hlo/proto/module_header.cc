#include "xla_patch/hlo/proto/module_header.h"

#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/opcode.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// A module has its program shape in field 4, which neither wrapper uses. Field 1 of a wrapper is the next message; of a
// module it is the name.
static_assert(static_cast<uint32_t>(HloProtoField::kHloModule) == HloSnapshotField::kHlo);

constexpr int kDeepest = 3;  // a module in an HloProto in an HloSnapshot

bool NamesCollectiveConfig(std::string_view bytes) {
  return bytes.find("\"collective_backend_config\"") != std::string_view::npos;
}

bool IsGpuForm(std::string_view computation) {
  FieldReader instructions(computation);
  for (Field instruction; instructions.Next(&instruction);) {
    if (instruction.number != ComputationField::kInstructions || instruction.type != WireType::kBytes) continue;
    FieldReader reader(instruction.bytes);
    for (Field field; reader.Next(&field);) {
      if (field.number == InstructionField::kOpcode) {
        const OpClass op_class = ClassifyOpcode(field.bytes).op_class;
        if (op_class == OpClass::kCollectiveStart || op_class == OpClass::kAsyncStart) return true;
      } else if (field.number == InstructionField::kBackendConfig && NamesCollectiveConfig(field.bytes)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

Result<std::string_view> UnwrapModule(std::string_view bytes) {
  for (int depth = 0; depth < kDeepest; ++depth) {
    bool is_module = false;
    bool is_wrapper = false;
    std::string_view inner;
    FieldReader reader(bytes);
    for (Field field; reader.Next(&field);) {
      if (field.type != WireType::kBytes) continue;
      is_module = is_module || field.number == ModuleField::kHostProgramShape;
      if (field.number == HloProtoField::kHloModule && !is_wrapper) {
        is_wrapper = true;
        inner = field.bytes;
      }
    }
    if (!reader.ok()) return Status::Error("is not an HLO proto, or is truncated: " + reader.error());
    if (is_module) return bytes;
    if (!is_wrapper) break;
    bytes = inner;
  }
  return Status::Error("is not an HLO module");
}

Result<ModuleHeader> ReadModuleHeader(std::string_view module) {
  ModuleHeader header;
  std::string_view assignment;
  FieldReader reader(module);
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case ModuleField::kName:
        header.name = field.bytes;
        break;
      case ModuleField::kDeviceAssignment:
        assignment = field.bytes;
        break;
      case ModuleField::kComputations:
        header.is_gpu_form = header.is_gpu_form || IsGpuForm(field.bytes);
        break;
      case ModuleField::kPayloads:  // which hold long backend configs
        header.is_gpu_form = header.is_gpu_form || NamesCollectiveConfig(field.bytes);
        break;
      default:
        break;
    }
  }
  if (!reader.ok()) return Status::Error("is not an HLO proto, or is truncated: " + reader.error());
  if (!assignment.empty()) {
    Result<DeviceAssignment> parsed = ParseDeviceAssignment(assignment);
    if (!parsed.ok()) return parsed.status();
    header.assignment = *std::move(parsed);
  }
  return header;
}

Result<std::string> WithDefaultAssignment(std::string_view module, int64_t replicas, int64_t partitions) {
  if (replicas < 1 || partitions < 1 || partitions > DeviceAssignment::kMaxDevices / replicas) {
    return Status::Error("is for " + std::to_string(replicas) + " x " + std::to_string(partitions) +
                         " devices, at most " + std::to_string(DeviceAssignment::kMaxDevices) + " are supported");
  }
  std::string assignment;
  WriteIntField(DeviceAssignmentField::kReplicaCount, replicas, &assignment);
  WriteIntField(DeviceAssignmentField::kComputationCount, partitions, &assignment);
  for (int64_t partition = 0; partition < partitions; ++partition) {
    std::vector<int64_t> devices;
    devices.reserve(replicas);
    for (int64_t replica = 0; replica < replicas; ++replica) devices.push_back(replica * partitions + partition);
    std::string computation;
    WritePackedInts(ComputationDeviceField::kReplicaDeviceIds, devices, &computation);
    WriteBytesField(DeviceAssignmentField::kComputationDevices, computation, &assignment);
  }
  std::string result(module);
  WriteBytesField(ModuleField::kDeviceAssignment, assignment, &result);
  return result;
}

}  // namespace xla_shmem::hlo
