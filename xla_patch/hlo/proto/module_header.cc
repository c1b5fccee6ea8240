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

constexpr uint64_t kMaximalSharding = 1;  // xla.OpSharding.Type: all of it on one device

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

bool StartsWith(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

// Calls that only tell the partitioner something. Shardy's are "xla.sdy.…".
bool IsForPartitioner(std::string_view custom_call_target) {
  return custom_call_target == "Sharding" || StartsWith(custom_call_target, "xla.sdy.") ||
         custom_call_target == "SPMDFullToShardShape" || custom_call_target == "SPMDShardToFullShape";
}

// Whether a sharding is neither for one device, as of a callback to the host, nor replicated, which is the empty
// message.
bool Divides(std::string_view sharding) {
  FieldReader reader(sharding);
  for (Field field; reader.Next(&field);) {
    if (field.number == OpShardingField::kType) return field.value != kMaximalSharding;
  }
  return !sharding.empty();
}

bool HasWorkForPartitioner(std::string_view computation) {
  FieldReader instructions(computation);
  for (Field instruction; instructions.Next(&instruction);) {
    if (instruction.number != ComputationField::kInstructions || instruction.type != WireType::kBytes) continue;
    bool is_parameter = false;
    bool is_divided = false;
    FieldReader reader(instruction.bytes);
    for (Field field; reader.Next(&field);) {
      if (field.number == InstructionField::kOpcode) {
        is_parameter = field.bytes == "parameter";
      } else if (field.number == InstructionField::kCustomCallTarget) {
        is_divided = is_divided || IsForPartitioner(field.bytes);
      } else if (field.number == InstructionField::kSharding) {
        is_divided = is_divided || Divides(field.bytes);
      }
    }
    if (is_divided && !is_parameter) return true;
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
  bool is_scheduled = false;
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
        header.awaits_partitioning = header.awaits_partitioning || HasWorkForPartitioner(field.bytes);
        break;
      case ModuleField::kSchedule:
        is_scheduled = true;
        break;
      case ModuleField::kPayloads:  // which hold long backend configs
        header.is_gpu_form = header.is_gpu_form || NamesCollectiveConfig(field.bytes);
        break;
      default:
        break;
    }
  }
  if (!reader.ok()) return Status::Error("is not an HLO proto, or is truncated: " + reader.error());
  header.awaits_partitioning = header.awaits_partitioning && !is_scheduled;
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
