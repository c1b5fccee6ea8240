#include "ptx/decoder.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace ptx {
namespace {

const std::unordered_map<std::string, DecodeFunction>& AllOpcodes() {
  static const auto* const all = [] {
    auto* table = new std::unordered_map<std::string, DecodeFunction>;
    for (const Opcodes* family :
         {&ArithmeticOpcodes(), &IntegerOpcodes(), &FloatOpcodes(), &LogicOpcodes(), &ComparisonOpcodes(),
          &ConversionOpcodes(), &MoveOpcodes(), &MemoryOpcodes(), &AtomicOpcodes(), &MultimemOpcodes(),
          &ControlOpcodes(), &WarpOpcodes(), &CallOpcodes()}) {
      for (const Opcode& opcode : *family) table->emplace(opcode.name, opcode.decode);
    }
    return table;
  }();
  return *all;
}

struct Special {
  const char* name;
  uint32_t reg;
};
constexpr Special kSpecials[] = {
    {"%tid.x", kTidX},
    {"%tid.y", kTidY},
    {"%tid.z", kTidZ},
    {"%ntid.x", kThreadsX},
    {"%ntid.y", kThreadsY},
    {"%ntid.z", kThreadsZ},
    {"%ctaid.x", kBlockX},
    {"%ctaid.y", kBlockY},
    {"%ctaid.z", kBlockZ},
    {"%nctaid.x", kBlocksX},
    {"%nctaid.y", kBlocksY},
    {"%nctaid.z", kBlocksZ},
    {"%laneid", kLaneId},
    {"%warpid", kWarpId},
    {"%nwarpid", kWarpCount},
    {"%lanemask_eq", kLaneMaskEq},
    {"%lanemask_lt", kLaneMaskLt},
    {"%lanemask_le", kLaneMaskLe},
    {"%lanemask_gt", kLaneMaskGt},
    {"%lanemask_ge", kLaneMaskGe},
};

size_t ElementBytes(const Declaration& declaration) { return BytesOf(TypeOf(declaration.type)); }

size_t AlignmentOf(const Declaration& declaration) {
  return std::max<size_t>(1, declaration.alignment != 0 ? declaration.alignment : ElementBytes(declaration));
}

}  // namespace

Decoder::Decoder(const Module& module, Kernel* kernel) : module_(module), kernel_(kernel) {
  scopes_.emplace_back();
  for (const Special& special : kSpecials) scopes_[0].registers[special.name] = {Type::kU32, special.reg, 0};
}

void Decoder::Run() {
  for (const Declaration& parameter : kernel_->syntax.parameters) {
    size_t& used = kernel_->parameter_bytes;
    used = AlignUp(used, AlignmentOf(parameter));
    parameters_[parameter.name] = used;
    kernel_->parameters.push_back({used, ElementBytes(parameter) * parameter.elements});
    used += kernel_->parameters.back().bytes;
  }
  LayOutSharedMemory();
  for (const std::string& directive : kernel_->syntax.unknown_directives) {
    kernel_->refusals.push_back(directive + ": directive is not understood");
  }
  for (const Statement& statement : kernel_->syntax.body) {
    switch (statement.kind) {
      case Statement::Kind::kOpenScope:
        scopes_.emplace_back();
        break;
      case Statement::Kind::kCloseScope:
        scopes_.pop_back();
        break;
      case Statement::Kind::kLabel:
        labels_[statement.label] = static_cast<int32_t>(kernel_->code.size());
        break;
      case Statement::Kind::kBranchTargets:
        tables_[statement.label] = statement.targets;
        break;
      case Statement::Kind::kDeclaration:
        for (const Declaration& declaration : statement.declarations) Declare(statement, declaration);
        break;
      case Statement::Kind::kInstruction:
        DecodeInstruction(statement);
        break;
    }
  }
  Instruction end;
  end.run = EndThreads;
  kernel_->code.push_back(end);
  ResolveBranches();
}

void Decoder::Refuse(const Statement& statement, const std::string& reason) {
  kernel_->refusals.push_back(statement.text + ": " + reason + " (line " + std::to_string(statement.line) + ")");
}

void Decoder::Declare(const Statement& statement, const Declaration& declaration) {
  const Type type = TypeOf(declaration.type);
  if (type == Type::kNone) return Refuse(statement, "type ." + declaration.type + " is not understood");
  if (declaration.space == "reg") {
    scopes_.back().registers[declaration.name] = {type, declaration.numbered == 0 ? Allocate(type) : 0,
                                                  declaration.numbered};
  } else if (declaration.space == "shared") {
    // It has its place already.
  } else if (declaration.space == "local") {
    DeclareMemory(declaration, &kernel_->local_bytes, &local_);
  } else if (declaration.space == "param" && !declaration.array) {
    scopes_.back().call_parameters[declaration.name] = {type, Allocate(type), 0};
  } else {
    Refuse(statement, "declaration is not understood");
  }
}

void Decoder::DeclareMemory(const Declaration& declaration, size_t* used, std::map<std::string, size_t>* offsets) {
  *used = AlignUp(*used, AlignmentOf(declaration));
  (*offsets)[declaration.name] = *used;
  *used += ElementBytes(declaration) * declaration.elements;
}

// Arrays without a size lie behind all others, at the begin of the dynamic shared memory.
void Decoder::LayOutSharedMemory() {
  std::set<std::string> used;
  for (const Statement& statement : kernel_->syntax.body) {
    for (const Operand& operand : statement.operands) used.insert(operand.parts.begin(), operand.parts.end());
    for (const Declaration& declaration : statement.declarations) {
      if (declaration.space == "shared") DeclareMemory(declaration, &kernel_->shared_bytes, &shared_);
    }
  }
  for (const bool dynamic : {false, true}) {
    for (const auto& [name, declaration] : module_.shared) {
      if (used.count(name) == 0 || (declaration.elements == 0) != dynamic) continue;
      if (dynamic) kernel_->shared_bytes = AlignUp(kernel_->shared_bytes, 1024);
      DeclareMemory(declaration, &kernel_->shared_bytes, &shared_);
    }
  }
}

void Decoder::DecodeInstruction(const Statement& statement) {
  Instruction instruction;
  instruction.source = &statement;
  Decoding decoding(this, statement, &instruction);
  const auto opcode = AllOpcodes().find(statement.opcode);
  if (opcode == AllOpcodes().end()) {
    decoding.Refuse("instruction " + statement.opcode + " is not understood");
  } else {
    instruction.run = opcode->second(decoding);
    kernel_->has_multimem |= statement.opcode == "multimem";
    if (instruction.run == nullptr) decoding.Refuse("its type or modifiers are not understood");
    decoding.CheckAllTaken();
  }
  if (!statement.guard.empty()) {
    const RegisterInfo* guard = FindRegister(statement.guard);
    if (guard == nullptr || guard->type != Type::kPred) decoding.Refuse("unknown guard " + statement.guard);
    instruction.guard = guard == nullptr ? 0 : guard->reg;
    instruction.guard_flip = statement.guard_negated ? ~0U : 0;
  }
  if (!decoding.refusal().empty()) Refuse(statement, decoding.refusal());
  kernel_->code.push_back(std::move(instruction));
}

void Decoder::ResolveBranches() {
  const auto place_of = [&](size_t instruction, const std::string& label) {
    const auto found = labels_.find(label);
    if (found != labels_.end()) return found->second;
    Refuse(*kernel_->code[instruction].source, "unknown label " + label);
    return 0;
  };
  for (const Branch& branch : branches_) {
    Instruction& instruction = kernel_->code[branch.instruction];
    if (!branch.table) {
      instruction.target = place_of(branch.instruction, branch.label);
      continue;
    }
    if (tables_.count(branch.label) == 0) Refuse(*instruction.source, "unknown table " + branch.label);
    for (const std::string& label : tables_[branch.label]) {
      instruction.targets.push_back(place_of(branch.instruction, label));
    }
  }
}

const Decoder::RegisterInfo* Decoder::FindRegister(const std::string& name) {
  const size_t last = name.find_last_not_of("0123456789");
  const std::string family = last == std::string::npos ? "" : name.substr(0, last + 1);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->registers.find(name);
    if (found != scope->registers.end() && found->second.numbered == 0) return &found->second;
    const auto numbered = scope->registers.find(family);
    if (family.size() == name.size() || name.size() - family.size() > 9 || numbered == scope->registers.end()) continue;
    if (std::stoul(name.substr(family.size())) >= numbered->second.numbered) continue;
    const Type type = numbered->second.type;
    return &(scope->registers[name] = {type, Allocate(type), 0});
  }
  return nullptr;
}

uint32_t Decoder::Allocate(Type type) {
  const auto bytes = static_cast<uint32_t>(BytesOf(type) * kLanes);
  uint32_t& used = kernel_->register_bytes;
  if (bytes != 0) used = static_cast<uint32_t>(AlignUp(used, 64));
  const uint32_t reg = used;
  used += bytes == 0 ? 4 : bytes;
  return reg;
}

uint32_t Decoder::ConstantRegister(size_t bytes, uint64_t value) {
  if (bytes != 0 && bytes < 8) value &= (1ULL << (8 * bytes)) - 1;
  for (const Constant& constant : kernel_->constants) {
    if (constant.bytes == bytes && constant.value == value) return constant.reg;
  }
  const Type types[] = {Type::kPred, Type::kB8,   Type::kB16,  Type::kNone, Type::kB32,
                        Type::kNone, Type::kNone, Type::kNone, Type::kB64};
  kernel_->constants.push_back({Allocate(types[bytes]), bytes, value});
  return kernel_->constants.back().reg;
}

bool Decoder::AddressOf(const std::string& name, Space* space, uint64_t* address, std::string* refusal) {
  const auto in = [&](const std::map<std::string, size_t>& offsets, Space where) {
    const auto found = offsets.find(name);
    if (found == offsets.end()) return false;
    *space = where;
    *address = found->second;
    return true;
  };
  if (in(shared_, Space::kShared) || in(local_, Space::kLocal) || in(parameters_, Space::kParameter)) return true;
  if (const auto global = module_.globals.find(name); global != module_.globals.end()) {
    *space = Space::kGlobal;
    *address = reinterpret_cast<uint64_t>(global->second.memory);
    *refusal = global->second.refusal;
    return true;
  }
  return false;
}

}  // namespace ptx
