#include "xla_patch/hlo/analysis/work.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "xla_patch/hlo/analysis/flops.h"
#include "xla_patch/hlo/analysis/traffic.h"
#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem::hlo {
namespace {

template <size_t kCount>
using Names = std::array<std::string_view, kCount>;

constexpr Names<13> kFree = {"parameter",         "constant",   "tuple",       "get-tuple-element",
                             "bitcast",           "after-all",  "opt-barrier", "add-dependency",
                             "partition-id",      "replica-id", "domain",      "get-dimension-size",
                             "set-dimension-size"};
// These instructions move data and do not compute.
constexpr Names<18> kMoves = {"copy",
                              "copy-start",
                              "copy-done",
                              "transpose",
                              "reshape",
                              "broadcast",
                              "iota",
                              "slice",
                              "pad",
                              "gather",
                              "reverse",
                              "concatenate",
                              "dynamic-slice",
                              "dynamic-update-slice",
                              "infeed",
                              "outfeed",
                              "bitcast-convert",
                              "rng-get-and-update-state"};
// Transfers between two devices.
constexpr Names<4> kMessages = {"send", "send-done", "recv", "recv-done"};
constexpr std::string_view kLtMatmul = "__cublas$lt$matmul";  // and $f8, $mx
// Followed by what else is in the kernel, such as Softmax and Dropout, and by kBackward.
constexpr std::string_view kCudnnAttention = "__cudnn$fmha";
constexpr std::string_view kBackward = "Backward";
constexpr Names<5> kUncounted = {"fft", "cholesky", "triangular-solve", "ragged-dot", "scan"};

template <size_t kCount>
bool Is(const Names<kCount>& names, std::string_view opcode) {
  return std::find(names.begin(), names.end(), opcode) != names.end();
}

// Fields of an instruction that only its own count needs.
struct Details {
  std::string_view dot_numbers;
  std::string_view convolution_numbers;
  std::string_view window;
};

class Counter {
 public:
  explicit Counter(const Module& module)
      : module_(module),
        work_(module.instructions.size()),
        shapes_(module.instructions.size()),
        computation_flops_(module.computations.size()) {}

  // Callees come first, so their counts are known when their callers are counted.
  Result<std::vector<Work>> Run() {
    for (size_t c = 0; c < module_.computations.size(); ++c) {
      const Computation& computation = module_.computations[c];
      const InstructionIndex index(module_, computation);
      for (size_t i = computation.first; i < computation.last; ++i) {
        if (const Status read = Read(index, i); !read.ok()) {
          return Status::Error("not a well-formed HloModuleProto: " + std::string(work_[i].name) + ": " +
                               read.message());
        }
      }
      for (size_t i = computation.first; i < computation.last; ++i) {
        work_[i].kind = Kind(i);
        work_[i].flops = Flops(i);
        work_[i].bytes = CountTraffic(module_, work_, i);
        computation_flops_[c] = Sum(computation_flops_[c], FlopsInside(i));
      }
    }
    return std::move(work_);
  }

 private:
  Status Read(const InstructionIndex& index, size_t i) {
    const Instruction& instruction = module_.instructions[i];
    Work& work = work_[i];
    FieldReader reader(instruction.body);
    for (Field field; reader.Next(&field);) {
      switch (field.number) {
        case InstructionField::kName:
          work.name = field.bytes;
          break;
        case InstructionField::kOpcode:
          work.opcode = field.bytes;
          break;
        case InstructionField::kCustomCallTarget:
          work.custom_call_target = field.bytes;
          break;
        case InstructionField::kCalledComputationIds:
          AppendRepeatedInts(field, &work.callees);  // ReadModule has seen to it that they are well-formed
          break;
        default:
          break;
      }
    }
    if (!DecodeOperands(instruction, &work.operands)) return Status::Error("operand_ids are malformed");
    for (int64_t& operand : work.operands) {
      const Instruction* found = index.Find(operand);
      operand = found == nullptr ? -1 : found - module_.instructions.data();
    }
    Result<Shape> shape = ParseShape(instruction.shape);
    if (!shape.ok()) return shape.status();
    shapes_[i] = *std::move(shape);
    work.elements = CountElements(shapes_[i]);
    work.result_bytes = ShapeBytes(shapes_[i]);
    FindCallee(&work);
    return Status();
  }

  Details ReadDetails(size_t i) const {
    Details details;
    FieldReader reader(module_.instructions[i].body);
    for (Field field; reader.Next(&field);) {
      if (field.number == InstructionField::kWindow) {
        details.window = field.bytes;
      } else if (field.number == InstructionField::kConvolutionDimensionNumbers) {
        details.convolution_numbers = field.bytes;
      } else if (field.number == InstructionField::kDotDimensionNumbers) {
        details.dot_numbers = field.bytes;
      }
    }
    return details;
  }

  int64_t Operand(size_t i, size_t place) const {
    return place < work_[i].operands.size() ? work_[i].operands[place] : -1;
  }
  int64_t OperandElements(size_t i, size_t place) const {
    const int64_t operand = Operand(i, place);
    return operand < 0 ? -1 : work_[operand].elements;
  }
  void FindCallee(Work* work) const {
    const auto found =
        work->callees.empty() ? module_.computation_of_id.end() : module_.computation_of_id.find(work->callees[0]);
    if (found == module_.computation_of_id.end()) return;
    const Computation& computation = module_.computations[found->second];
    work->callee = static_cast<int64_t>(found->second);
    for (size_t root = computation.last; work->callee_root < 0 && root-- > computation.first;) {
      if (module_.instructions[root].id == computation.root_id) work->callee_root = static_cast<int64_t>(root);
    }
  }
  int64_t CalleeFlops(size_t i) const { return work_[i].callee < 0 ? -1 : computation_flops_[work_[i].callee]; }

  WorkKind Kind(size_t i) const {
    switch (module_.instructions[i].opcode.op_class) {
      case OpClass::kCollective:
      case OpClass::kCollectiveStart:
      case OpClass::kCollectiveDone:
        return WorkKind::kCollective;
      case OpClass::kAsyncStart: {
        const int64_t root = work_[i].callee_root;
        return root >= 0 && work_[root].kind == WorkKind::kCollective ? WorkKind::kCollective : WorkKind::kCompute;
      }
      case OpClass::kAsyncDone:
      case OpClass::kAsyncUpdate: {
        const int64_t start = Operand(i, 0);
        return start < 0 ? WorkKind::kCompute : work_[start].kind;
      }
      case OpClass::kWhile:
      case OpClass::kConditional:
        return WorkKind::kControl;
      case OpClass::kOther:
      case OpClass::kFusion:
      case OpClass::kCustomCall:
        break;
    }
    if (module_.instructions[i].is_lowered || Is(kMessages, work_[i].opcode)) return WorkKind::kCollective;
    if (work_[i].opcode == "call") return WorkKind::kControl;
    if (MovesNothing(work_[i].custom_call_target)) return WorkKind::kFree;
    return Is(kFree, work_[i].opcode) ? WorkKind::kFree : WorkKind::kCompute;
  }

  int64_t Flops(size_t i) const {
    const std::string_view opcode = work_[i].opcode;
    const OpClass op_class = module_.instructions[i].opcode.op_class;
    if (op_class == OpClass::kFusion || op_class == OpClass::kAsyncStart) return CalleeFlops(i);
    if (work_[i].kind != WorkKind::kCompute || op_class == OpClass::kAsyncDone || Is(kMoves, opcode)) return 0;
    if (op_class == OpClass::kCustomCall) return CustomCallFlops(i);
    if (Is(kUncounted, opcode)) return -1;
    if (opcode == "dot" || opcode == "scaled-dot") {
      return DotFlopsOf(i, ContractedDimensions(ReadDetails(i).dot_numbers));
    }
    if (opcode == "convolution") {
      const int64_t kernel = Operand(i, 1);
      return kernel < 0 ? -1 : ConvolutionFlops(work_[i].elements, shapes_[kernel], ReadDetails(i).convolution_numbers);
    }
    if (opcode == "reduce") {
      return Product(std::max<int64_t>(OperandElements(i, 0) - work_[i].elements, 0), CalleeFlops(i));
    }
    if (opcode == "reduce-window") {
      return Product(Product(work_[i].elements, std::max<int64_t>(WindowElements(ReadDetails(i).window) - 1, 0)),
                     CalleeFlops(i));
    }
    if (opcode == "scatter") return Product(OperandElements(i, work_[i].operands.size() - 1), CalleeFlops(i));
    return opcode == "map" ? Product(work_[i].elements, CalleeFlops(i)) : work_[i].elements;
  }

  // Operations that an instruction adds to its computation if the computation runs as one instruction.
  int64_t FlopsInside(size_t i) const {
    if (work_[i].kind != WorkKind::kControl) return work_[i].flops;
    return work_[i].opcode == "call" ? CalleeFlops(i) : -1;
  }

  int64_t DotFlopsOf(size_t i, const std::vector<int64_t>& contracted) const {
    const int64_t left = Operand(i, 0);
    return left < 0 ? -1 : DotFlops(work_[i].elements, shapes_[left], contracted);
  }

  int64_t CustomCallFlops(size_t i) const {
    const std::string_view target = work_[i].custom_call_target;
    if (IsFusedAttention(target)) {
      const auto attention = ReadFusedAttention(BackendConfigOf(module_.payloads, module_.instructions[i].body));
      const int64_t query = Operand(i, 0);
      if (!attention.has_value() || query < 0 || shapes_[query].dimensions.empty()) return -1;
      return AttentionFlops(*attention, shapes_[query].dimensions.back(), target.find(kBackward) != target.npos);
    }
    if (target != "__cublas$gemm" && target.substr(0, kLtMatmul.size()) != kLtMatmul) return -1;
    const auto contracted = ReadContractedDimensions(BackendConfigOf(module_.payloads, module_.instructions[i].body));
    return contracted.has_value() ? DotFlopsOf(i, *contracted) : -1;
  }

  const Module& module_;
  std::vector<Work> work_;
  std::vector<Shape> shapes_;
  std::vector<int64_t> computation_flops_;  // of one execution
};

}  // namespace

bool IsFusedAttention(std::string_view custom_call_target) {
  return custom_call_target.substr(0, kCudnnAttention.size()) == kCudnnAttention;
}

Result<std::vector<Work>> CountWork(const Module& module) { return Counter(module).Run(); }

}  // namespace xla_shmem::hlo
