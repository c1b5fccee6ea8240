#include "xla_patch/hlo/proto/module_reader.h"

#include <algorithm>
#include <limits>

#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem::hlo {
namespace {

struct CallEdge {
  size_t caller;       // computation
  size_t instruction;  // index
  int64_t callee_id;
  size_t place;  // among the instruction's callees
};

Status MalformedModule(const char* where, const std::string& problem) {
  return Status::Error(std::string("not a well-formed HloModuleProto: ") + where + ": " + problem);
}

// CustomCallApiVersion::API_VERSION_TYPED_FFI
constexpr uint64_t kApiVersionTypedFfi = 4;

// Hashes the attributes of a typed FFI call, a dictionary as MLIR prints it. Numbers of ten digits or more may be
// addresses or handles, which differ between ranks, so only their places count.
uint64_t HashAttributes(uint64_t hash, std::string_view text) {
  constexpr size_t kMinDigits = 10;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end - i >= kMinDigits) {
      hash = HashBytes(hash, text.substr(begin, i - begin));
      begin = end;
    }
    i = std::max(end, i + 1);
  }
  return HashBytes(hash, text.substr(begin));
}

// Whether a field of an instruction says what it computes, and so counts for Module::structure_hash.
bool IsStructure(uint32_t field) {
  switch (field) {
    case InstructionField::kName:
    case InstructionField::kMetadata:
    case InstructionField::kFusionKind:
    case InstructionField::kControlPredecessorIds:
    case InstructionField::kSharding:
    case InstructionField::kBackendConfig:
    case InstructionField::kBackendConfigPayload:
    case InstructionField::kDomainEntrySharding:
    case InstructionField::kDomainExitSharding:
    case InstructionField::kFrontendAttributes:
    case InstructionField::kStatisticsViz:
    case InstructionField::kOriginalValue:
      return false;
    default:
      return true;
  }
}

// Reads the module into `module_` and keeps the call edges until the callees are known.
class Scanner {
 public:
  explicit Scanner(Module* module) : module_(module) {}

  Status Run() {
    uint64_t hash = 0;
    FieldReader reader(module_->bytes);
    for (Field field; reader.Next(&field);) {
      switch (field.number) {
        case ModuleField::kName:
          module_->name = field.bytes;
          break;
        case ModuleField::kComputations:
          if (const Status scanned = ScanComputation(field, &hash); !scanned.ok()) {
            return MalformedModule("computation", scanned.message());
          }
          break;
        case ModuleField::kEntryComputationId:
          entry_id_ = field.AsInt();
          break;
        case ModuleField::kSchedule:
          module_->schedule = field.bytes;
          break;
        case ModuleField::kInputOutputAlias:
          module_->input_output_alias = field.bytes;
          break;
        case ModuleField::kDeviceAssignment:
          module_->device_assignment = field.bytes;
          break;
        case ModuleField::kStackFrameIndex:
          module_->stack_frame_index = field.bytes;
          break;
        case ModuleField::kPayloads:
          module_->payloads.push_back(field.bytes);
          break;
        default:
          break;
      }
    }
    if (!reader.ok()) return MalformedModule("module", reader.error());
    if (module_->computations.empty()) return MalformedModule("module", "no computations");
    hash = HashBytes(hash, module_->name);
    module_->structure_hash = HashBytes(hash, module_->device_assignment);
    return FollowCalls();
  }

 private:
  Status ScanComputation(const Field& field, uint64_t* hash) {
    if (field.type != WireType::kBytes) return Status::Error("wrong wire type");
    Computation computation;
    computation.whole = field.whole;
    computation.body = field.bytes;
    computation.first = module_->instructions.size();
    const size_t index = module_->computations.size();
    FieldReader reader(field.bytes);
    for (Field inner; reader.Next(&inner);) {
      switch (inner.number) {
        case ComputationField::kName:
          computation.name = inner.bytes;
          break;
        case ComputationField::kInstructions:
          XLA_SHMEM_RETURN_IF_ERROR(ScanInstruction(inner, index, hash));
          break;
        case ComputationField::kId:
          computation.id = inner.AsInt();
          break;
        case ComputationField::kRootId:
          computation.root_id = inner.AsInt();
          break;
        case ComputationField::kIsFusionComputation:
          computation.is_fusion = inner.value != 0;
          break;
        default:
          break;
      }
    }
    if (!reader.ok()) return Status::Error(reader.error());
    computation.last = module_->instructions.size();
    *hash = HashInt(HashInt(*hash, computation.id), computation.root_id);
    module_->computations.push_back(computation);
    return Status();
  }

  Status ScanInstruction(const Field& field, size_t computation, uint64_t* hash) {
    if (field.type != WireType::kBytes) return Status::Error("wrong wire type");
    module_->instructions.emplace_back();
    Instruction& instruction = module_->instructions.back();
    instruction.whole = field.whole;
    instruction.body = field.bytes;
    std::string_view opcode;
    std::string_view target;
    std::string_view backend_config;
    bool has_name = false;
    bool is_typed_ffi = false;
    callees_.clear();
    FieldReader reader(field.bytes);
    for (Field inner; reader.Next(&inner);) {
      switch (inner.number) {
        case InstructionField::kName:
          has_name = !inner.bytes.empty();
          break;
        case InstructionField::kOpcode:
          opcode = inner.bytes;
          break;
        case InstructionField::kShape:
          instruction.shape = inner.bytes;
          break;
        case InstructionField::kCustomCallTarget:
          target = inner.bytes;
          break;
        case InstructionField::kId:
          instruction.id = inner.AsInt();
          break;
        case InstructionField::kOperandIds:
          instruction.has_loose_operands =
              instruction.has_loose_operands || inner.type != WireType::kBytes || !instruction.packed_operands.empty();
          instruction.packed_operands = inner.bytes;
          break;
        case InstructionField::kCalledComputationIds:
          if (!AppendRepeatedInts(inner, &callees_)) return Status::Error("bad called_computation_ids");
          break;
        case InstructionField::kBackendConfig:
          backend_config = inner.bytes;
          break;
        case InstructionField::kCustomCallApiVersion:
          is_typed_ffi = inner.value == kApiVersionTypedFfi;
          break;
        default:
          break;
      }
      if (IsStructure(inner.number)) *hash = HashBytes(*hash, inner.whole);
    }
    if (!reader.ok()) return Status::Error("instruction: " + reader.error());
    // Parts of a divided collective name the whole, and errors name an instruction.
    if (!has_name) return Status::Error("instruction " + std::to_string(instruction.id) + " has no name");
    if (is_typed_ffi) *hash = HashAttributes(*hash, backend_config);
    instruction.opcode = ClassifyOpcode(opcode);
    instruction.is_lowered = instruction.opcode.op_class == OpClass::kCustomCall && CarriesCollective(target);
    AddCalls(computation, instruction.opcode.op_class);
    return Status();
  }

  // The edges to `callees_`, from the instruction read last.
  void AddCalls(size_t computation, OpClass op_class) {
    if (op_class == OpClass::kAsyncUpdate || op_class == OpClass::kAsyncDone) return;
    for (size_t place = 0; place < callees_.size(); ++place) {
      calls_.push_back({computation, module_->instructions.size() - 1, callees_[place], place});
    }
  }

  // Callers come after their callees, so walking the edges backwards finds every computation's state complete before it
  // reaches its callees.
  Status FollowCalls() {
    auto& by_id = module_->computation_of_id;
    for (size_t i = 0; i < module_->computations.size(); ++i) {
      if (!by_id.emplace(module_->computations[i].id, i).second) {
        return MalformedModule("module", "two computations with id " + std::to_string(module_->computations[i].id));
      }
    }
    // Callees come first, so the entry is last if the module does not name it.
    const auto entry = by_id.find(entry_id_);
    module_->entry = entry == by_id.end() ? by_id.size() - 1 : entry->second;
    module_->computations[module_->entry].is_reachable = true;
    module_->computations[module_->entry].executions = 1;
    std::vector<int32_t> callers(module_->computations.size(), 0);
    for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
      const auto found = by_id.find(call->callee_id);
      if (found == by_id.end() || found->second >= call->caller) {
        return MalformedModule("module",
                               "computation " + std::to_string(call->callee_id) + " is called before it is defined");
      }
      const Computation& caller = module_->computations[call->caller];
      if (!caller.is_reachable) continue;
      Computation& callee = module_->computations[found->second];
      const OpClass op_class = module_->instructions[call->instruction].opcode.op_class;
      callee.is_reachable = true;
      callee.caller = call->caller;
      callee.caller_instruction = call->instruction;
      callee.caller_place = call->place;
      callee.executions = Sum(callee.executions, Product(caller.executions, Turns(*call)));
      callee.has_many_callers = callee.has_many_callers || caller.has_many_callers || ++callers[found->second] > 1;
      callee.loop_depth = std::max(callee.loop_depth, caller.loop_depth + (op_class == OpClass::kWhile ? 1 : 0));
      callee.is_fusion = callee.is_fusion || caller.is_fusion || op_class == OpClass::kFusion;
      if (op_class == OpClass::kAsyncStart) {
        callee.async_start = static_cast<int64_t>(call->instruction);
        callee.async_computation = call->caller;
      }
    }
    return Status();
  }

  // How often a call's callee runs in one execution of the caller; -1 if unknown.
  int64_t Turns(const CallEdge& call) const {
    const Instruction& instruction = module_->instructions[call.instruction];
    if (instruction.opcode.op_class == OpClass::kConditional) return -1;
    if (instruction.opcode.op_class != OpClass::kWhile) return 1;
    const int64_t trips = ReadTripCount(BackendConfigOf(module_->payloads, instruction.body)).value_or(-1);
    // HloWhileInstruction lists its body, then its condition, which runs once more.
    return call.place == 0 ? trips : Sum(trips, 1);
  }

  Module* module_;
  int64_t entry_id_ = 0;
  std::vector<CallEdge> calls_;
  std::vector<int64_t> callees_;  // of the instruction being scanned
};

}  // namespace

Result<Module> ReadModule(std::string_view bytes) {
  Module module;
  module.bytes = bytes;
  // Real instructions take 100 to 200 bytes; growing by doubling would touch twice the memory.
  module.instructions.reserve(bytes.size() / 128);
  XLA_SHMEM_RETURN_IF_ERROR(Scanner(&module).Run());
  return module;
}

InstructionIndex::InstructionIndex(const Module& module, const Computation& computation) : module_(module) {
  if (computation.first == computation.last) return;
  int64_t highest = std::numeric_limits<int64_t>::min();
  lowest_ = std::numeric_limits<int64_t>::max();
  for (size_t i = computation.first; i < computation.last; ++i) {
    lowest_ = std::min(lowest_, module.instructions[i].id);
    highest = std::max(highest, module.instructions[i].id);
  }
  const uint64_t spread = static_cast<uint64_t>(highest) - static_cast<uint64_t>(lowest_);
  const bool is_dense = spread < 8 * (computation.last - computation.first) + 64;
  if (is_dense) dense_.assign(spread + 1, -1);
  for (size_t i = computation.first; i < computation.last; ++i) {
    const int64_t id = module.instructions[i].id;
    if (is_dense) {
      dense_[id - lowest_] = static_cast<int64_t>(i);
    } else {
      sparse_[id] = static_cast<int64_t>(i);
    }
  }
}

const Instruction* InstructionIndex::Find(int64_t id) const {
  int64_t index = -1;
  if (!dense_.empty()) {
    const uint64_t offset = static_cast<uint64_t>(id) - static_cast<uint64_t>(lowest_);
    index = offset < dense_.size() ? dense_[offset] : -1;
  } else if (const auto found = sparse_.find(id); found != sparse_.end()) {
    index = found->second;
  }
  return index < 0 ? nullptr : &module_.instructions[index];
}

namespace {

// The first field of this number; empty if there is none.
std::string_view FieldOf(const Instruction& instruction, uint32_t number) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == number) return field.bytes;
  }
  return {};
}

}  // namespace

std::string_view OpcodeOf(const Instruction& instruction) { return FieldOf(instruction, InstructionField::kOpcode); }

std::string_view TargetOf(const Instruction& instruction) {
  return instruction.opcode.op_class == OpClass::kCustomCall ? FieldOf(instruction, InstructionField::kCustomCallTarget)
                                                             : std::string_view();
}

bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids) {
  operand_ids->clear();
  FieldReader reader(instruction.has_loose_operands ? instruction.body : std::string_view());
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOperandIds && !AppendRepeatedInts(field, operand_ids)) return false;
  }
  if (!instruction.has_loose_operands) {
    Field packed;
    packed.type = WireType::kBytes;
    packed.bytes = instruction.packed_operands;
    return AppendRepeatedInts(packed, operand_ids);
  }
  return reader.ok();
}

}  // namespace xla_shmem::hlo
