#include "xla_patch/hlo/analysis/traffic.h"

#include <algorithm>
#include <string_view>

namespace xla_shmem::hlo {
namespace {

bool EndsWith(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

class Traffic {
 public:
  Traffic(const Module& module, const std::vector<Work>& work) : module_(module), work_(work) {}

  int64_t Run(size_t i) const {
    const std::string_view opcode = work_[i].opcode;
    const OpClass op_class = module_.instructions[i].opcode.op_class;
    if (work_[i].kind == WorkKind::kFree || work_[i].kind == WorkKind::kControl || opcode == "copy-done") return 0;
    if (work_[i].kind == WorkKind::kCollective) return CollectiveBytes(i);
    if (op_class == OpClass::kAsyncStart) {
      const int64_t root = work_[i].callee_root;
      return root < 0 ? OperandSizes(i) : work_[root].bytes;
    }
    if (op_class == OpClass::kAsyncDone) return 0;
    if (op_class == OpClass::kFusion) return FusionBytes(i);
    if (opcode == "copy-start") return Product(2, OperandSize(i, 0));
    if (opcode == "slice" || opcode == "dynamic-slice") return Product(2, work_[i].result_bytes);
    if (opcode == "gather") return Sum(Product(2, work_[i].result_bytes), OperandSize(i, 1));
    if (opcode == "dynamic-update-slice") return Product(2, OperandSize(i, 1));
    if (opcode == "scatter" && work_[i].operands.size() == 3) {  // destination, indices, updates
      return Sum(Product(3, OperandSize(i, 2)), OperandSize(i, 1));
    }
    return Sum(OperandSizes(i), work_[i].result_bytes);
  }

 private:
  int64_t Operand(size_t i, size_t place) const {
    return place < work_[i].operands.size() ? work_[i].operands[place] : -1;
  }
  int64_t OperandSize(size_t i, size_t place) const {
    const int64_t operand = Operand(i, place);
    return operand < 0 ? 0 : work_[operand].result_bytes;
  }
  int64_t OperandSizes(size_t i) const {
    int64_t sizes = 0;
    for (size_t place = 0; place < work_[i].operands.size(); ++place) sizes = Sum(sizes, OperandSize(i, place));
    return sizes;
  }

  int64_t CollectiveBytes(size_t i) const {
    const std::string_view called = module_.instructions[i].is_lowered ? work_[i].custom_call_target : work_[i].opcode;
    if (EndsWith(called, "-start") || EndsWith(called, "_start") || called == "send" || called == "recv") {
      return OperandSizes(i);
    }
    const bool is_done = EndsWith(called, "-done") || EndsWith(called, "_done");
    return Sum(is_done ? 0 : OperandSizes(i), work_[i].result_bytes);
  }

  // A fusion reads whole operands, except those that it only slices or updates in place.
  int64_t FusionBytes(size_t i) const {
    const int64_t callee = work_[i].callee;
    const int64_t root = work_[i].callee_root;
    if (callee < 0 || root < 0) return Sum(OperandSizes(i), work_[i].result_bytes);
    const Computation& fused = module_.computations[callee];
    const size_t count = fused.last - fused.first;
    std::vector<int64_t> read(count, 0);     // of parameters
    std::vector<int64_t> origin(count, -1);  // the parameter that the instruction is, also through a bitcast
    const auto origin_of = [&](int64_t index) { return index < 0 ? -1 : origin[index - fused.first]; };
    for (size_t at = fused.first; at < fused.last; ++at) {
      const Work& inner = work_[at];
      if (inner.opcode == "parameter") {
        origin[at - fused.first] = static_cast<int64_t>(at - fused.first);
      } else if (inner.opcode == "bitcast") {
        origin[at - fused.first] = origin_of(Operand(at, 0));
        continue;
      }
      for (size_t place = 0; place < inner.operands.size(); ++place) {
        if (const int64_t parameter = origin_of(inner.operands[place]); parameter >= 0) {
          const int64_t whole = work_[fused.first + parameter].result_bytes;
          read[parameter] = std::min(whole, Sum(read[parameter], place > 0 ? whole : PartRead(at, whole)));
        }
      }
    }
    int64_t bytes = ResultBytes(static_cast<size_t>(root));
    for (const int64_t one : read) bytes = Sum(bytes, one);
    return bytes;
  }

  // Bytes that an instruction reads of its first operand.
  int64_t PartRead(size_t i, int64_t whole) const {
    const std::string_view opcode = work_[i].opcode;
    if (opcode == "slice" || opcode == "dynamic-slice" || opcode == "gather") return work_[i].result_bytes;
    return opcode == "dynamic-update-slice" ? 0 : whole;
  }

  // Bytes that a fusion with this root writes.
  int64_t ResultBytes(size_t root) const {
    if (work_[root].opcode != "tuple") return WrittenBytes(static_cast<int64_t>(root));
    int64_t bytes = 0;
    for (const int64_t element : work_[root].operands) bytes = Sum(bytes, WrittenBytes(element));
    return bytes;
  }
  int64_t WrittenBytes(int64_t i) const {
    while (i >= 0 && work_[i].opcode == "bitcast" && Operand(i, 0) < i) i = Operand(i, 0);
    if (i < 0) return 0;
    return work_[i].opcode == "dynamic-update-slice" ? OperandSize(i, 1) : work_[i].result_bytes;
  }

  const Module& module_;
  const std::vector<Work>& work_;
};

}  // namespace

int64_t CountTraffic(const Module& module, const std::vector<Work>& work, size_t index) {
  return Traffic(module, work).Run(index);
}

}  // namespace xla_shmem::hlo
