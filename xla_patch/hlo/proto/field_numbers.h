#ifndef XLA_SHMEM_HLO_PROTO_FIELD_NUMBERS_H_
#define XLA_SHMEM_HLO_PROTO_FIELD_NUMBERS_H_

#include <cstdint>

namespace xla_shmem::hlo {

// Numbers of the protobuf fields that the pass reads or writes, named as in XLA's .proto files. Fields that it only
// copies are missing. tests/hlo/proto/test_field_numbers.py compares them with the schema of the installed jaxlib.

// xla/service/hlo.proto

// xla.HloSnapshot
struct HloSnapshotField {
  enum : uint32_t { kHlo = 1 };
};

// xla.HloProto
struct HloProtoField {
  enum : uint32_t { kHloModule = 1 };
};

// xla.HloModuleProto
struct ModuleField {
  enum : uint32_t {
    kName = 1,
    kComputations = 3,
    kHostProgramShape = 4,
    kEntryComputationId = 6,
    kSchedule = 7,
    kInputOutputAlias = 8,
    kDeviceAssignment = 15,
    kStackFrameIndex = 17,
    kPayloads = 22,
  };
};

// xla.HloComputationProto
struct ComputationField {
  enum : uint32_t { kName = 1, kInstructions = 2, kId = 5, kRootId = 6, kIsFusionComputation = 7 };
};

// xla.HloInstructionProto
struct InstructionField {
  enum : uint32_t {
    kName = 1,
    kOpcode = 2,
    kShape = 3,
    kMetadata = 7,
    kParameterNumber = 9,
    kFusionKind = 11,
    kTupleIndex = 13,
    kDimensions = 14,
    kWindow = 15,
    kConvolutionDimensionNumbers = 16,
    kSliceDimensions = 17,
    kDynamicSliceSizes = 20,
    kChannelId = 26,
    kCustomCallTarget = 28,
    kDotDimensionNumbers = 30,
    kId = 35,
    kOperandIds = 36,
    kControlPredecessorIds = 37,
    kCalledComputationIds = 38,
    kSharding = 40,
    kBackendConfig = 43,
    kAllReduceId = 45,
    kReplicaGroups = 49,
    kSourceTargetPairs = 52,
    kDomainEntrySharding = 54,
    kDomainExitSharding = 55,
    kConstrainLayout = 56,
    kOperandShapesWithLayout = 57,
    kCustomCallHasSideEffect = 65,
    kFrontendAttributes = 68,
    kUseGlobalDeviceIds = 71,
    kOutputOperandAliasing = 74,
    kCustomCallApiVersion = 77,
    kAsyncExecutionThread = 79,
    kStatisticsViz = 82,
    kCollectiveDeviceList = 87,
    kOriginalValue = 88,
    kIotaCollectiveDeviceList = 92,
    kMeshAxesReplicaGroupList = 93,
    kBackendConfigPayload = 99,
  };
};

// xla.HloInstructionProto.SliceDimensions
struct SliceDimensionsField {
  enum : uint32_t { kStart = 1, kLimit = 2, kStride = 3 };
};

// xla.HloScheduleProto
struct ScheduleField {
  enum : uint32_t { kSequences = 1 };
};

// xla.HloScheduleProto.SequencesEntry
struct SequencesEntryField {
  enum : uint32_t { kKey = 1, kValue = 2 };
};

// xla.HloScheduleProto.InstructionSequence
struct InstructionSequenceField {
  enum : uint32_t { kInstructionIds = 1 };
};

// xla.HloInputOutputAliasProto
struct InputOutputAliasField {
  enum : uint32_t { kEntries = 1 };
};

// xla.HloInputOutputAliasProto.AliasEntryProto
struct AliasEntryField {
  enum : uint32_t { kParameterNumber = 2, kParameterShapeIndex = 3 };
};

// xla.StackFrameIndexProto
struct StackFrameIndexField {
  enum : uint32_t { kFileNames = 1, kFileLocations = 3, kStackFrames = 4 };
};

// xla.StackFrameIndexProto.FileLocation
struct FileLocationField {
  enum : uint32_t { kFileNameId = 1, kLine = 3 };
};

// xla.StackFrameIndexProto.StackFrame
struct StackFrameField {
  enum : uint32_t { kFileLocationId = 1 };
};

// xla/xla_data.proto

// xla.ShapeProto
struct ShapeField {
  enum : uint32_t { kElementType = 2, kDimensions = 3, kTupleShapes = 4, kLayout = 5, kIsDynamicDimension = 6 };
};

// xla.LayoutProto
struct LayoutField {
  enum : uint32_t {
    kMinorToMajor = 1,
    kTiles = 6,
    kElementSizeInBits = 7,
    kMemorySpace = 8,
    kPhysicalShape = 10,
    kDynamicShapeMetadataPrefixBytes = 15,
    kTailPaddingAlignmentInElements = 16,
    kSplitConfigs = 17,
  };
};

// xla.OpSharding
struct OpShardingField {
  enum : uint32_t { kType = 1 };
};

// xla.OpMetadata
struct OpMetadataField {
  enum : uint32_t { kSourceFile = 3, kSourceLine = 4, kStackFrameId = 15 };
};

// xla.Payload
struct PayloadField {
  enum : uint32_t { kValue = 1, kId = 2 };
};

// xla.FrontendAttributes
struct FrontendAttributesField {
  enum : uint32_t { kMap = 1 };
};

// xla.FrontendAttributes.MapEntry
struct MapEntryField {
  enum : uint32_t { kKey = 1, kValue = 2 };
};

// xla.OutputOperandAliasing
struct OutputOperandAliasingField {
  enum : uint32_t { kOutputShapeIndex = 1, kOperandIndex = 2, kOperandShapeIndex = 3 };
};

// xla.DeviceAssignmentProto
struct DeviceAssignmentField {
  enum : uint32_t { kReplicaCount = 1, kComputationCount = 2, kComputationDevices = 3 };
};

// xla.DeviceAssignmentProto.ComputationDevice
struct ComputationDeviceField {
  enum : uint32_t { kReplicaDeviceIds = 1 };
};

// xla.SourceTarget
struct SourceTargetField {
  enum : uint32_t { kSource = 1, kTarget = 2 };
};

// xla.ReplicaGroup
struct ReplicaGroupField {
  enum : uint32_t { kReplicaIds = 1 };
};

// xla.CollectiveDeviceListProto; releases until 2025 also have iota_replica_group_list, which is reserved since.
struct CollectiveDeviceListField {
  enum : uint32_t { kReplicaGroups = 1, kIotaReplicaGroupList = 2 };
};

// xla.IotaReplicaGroupListProto
struct IotaReplicaGroupListField {
  enum : uint32_t { kNumReplicaGroups = 1, kNumDevicesPerGroup = 2, kIotaReshapeDims = 3, kIotaTransposePerm = 4 };
};

// xla.MeshAxesReplicaGroupListProto
struct MeshAxesReplicaGroupListField {
  enum : uint32_t { kMesh = 1, kAxes = 2 };
};

// xla.MeshProto
struct MeshField {
  enum : uint32_t { kAxes = 1, kDeviceIds = 2, kIotaTransform = 3 };
};

// xla.MeshProto.MeshAxis
struct MeshAxisField {
  enum : uint32_t { kSize = 2 };
};

// xla.MeshProto.IotaTransform
struct IotaTransformField {
  enum : uint32_t { kReshapeDims = 1, kTransposePerm = 2 };
};

// xla.AxisRefProto
struct AxisRefField {
  enum : uint32_t { kMeshAxisIndex = 1, kSubAxisInfo = 2 };
};

// xla.AxisRefProto.SubAxis
struct SubAxisField {
  enum : uint32_t { kPreSize = 1, kSize = 2 };
};

// xla.DotDimensionNumbers
struct DotDimensionNumbersField {
  enum : uint32_t { kLhsContractingDimensions = 1 };
};

// xla.ConvolutionDimensionNumbers
struct ConvolutionDimensionNumbersField {
  enum : uint32_t { kKernelOutputFeatureDimension = 4 };
};

// xla.Window
struct WindowField {
  enum : uint32_t { kDimensions = 1 };
};

// xla.WindowDimension
struct WindowDimensionField {
  enum : uint32_t { kSize = 1 };
};

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_FIELD_NUMBERS_H_
