// Operands and modifiers of one instruction.
#include <cfenv>
#include <cstdlib>

#include "ptx/decoder.h"

namespace ptx {
namespace {

// "0f3F800000", "0d...", "12", "-0x3": its bits. False if the text is no number or does not fit.
bool ParseNumber(const std::string& text, size_t bytes, uint64_t* bits) {
  if (text == "WARP_SZ") return *bits = kLanes, true;
  char* end = nullptr;
  if (text.size() > 2 && text[0] == '0' && std::string("fFdD").find(text[1]) != std::string::npos) {
    *bits = strtoull(text.c_str() + 2, &end, 16);
    const size_t size = text[1] == 'f' || text[1] == 'F' ? 4 : 8;
    return *end == '\0' && size == bytes;
  }
  const bool negative = text[0] == '-';
  const char* const digits = text.c_str() + (negative ? 1 : 0);
  if (*digits < '0' || *digits > '9') return false;
  const uint64_t magnitude = strtoull(digits, &end, 0);
  if (*end != '\0' && std::string(end) != "U") return false;
  *bits = negative ? 0 - magnitude : magnitude;
  return true;
}

std::string BitsText(size_t bytes) { return bytes == 0 ? "a predicate" : std::to_string(8 * bytes) + " bits"; }

}  // namespace

Decoding::Decoding(Decoder* decoder, const Statement& statement, Instruction* instruction)
    : decoder_(decoder),
      statement_(statement),
      instruction_(instruction),
      modifiers_(statement.modifiers),
      taken_(statement.operands.size(), false) {}

const Operand& Decoding::operand(size_t index) {
  static const Operand none = {Operand::Kind::kScalar, {""}, "", false, 0};
  if (index >= statement_.operands.size()) {
    Refuse("operand " + std::to_string(index + 1) + " is missing");
    return none;
  }
  taken_[index] = true;
  return statement_.operands[index];
}

bool Decoding::Take(const char* modifier) {
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (modifiers_[i] != modifier) continue;
    modifiers_.erase(modifiers_.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

int Decoding::TakeOneOf(std::initializer_list<const char*> modifiers) {
  int index = 0;
  for (const char* modifier : modifiers) {
    if (Take(modifier)) return index;
    ++index;
  }
  return -1;
}

Type Decoding::TakeType() {
  const Type type = modifiers_.empty() ? Type::kNone : TypeOf(modifiers_.back());
  if (type != Type::kNone) modifiers_.pop_back();
  return type;
}

int Decoding::TakeRounding() {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int index = TakeOneOf({"rn", "rz", "rm", "rp"});
  if (index >= 0) instruction_->rounding = modes[index];
  return index < 0 ? -1 : modes[index];
}

void Decoding::Refuse(const std::string& reason) {
  if (refusal_.empty()) refusal_ = reason;
}

void Decoding::CheckAllTaken() {
  // Other reasons may only be consequences of it.
  if (!modifiers_.empty() && instruction_->run != nullptr) {
    refusal_ = "modifier ." + modifiers_.front() + " is not understood";
  }
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (!taken_[i]) Refuse("operand " + std::to_string(i + 1) + " is not understood");
  }
}

uint32_t Decoding::Register(const std::string& name, Type type, bool destination, uint8_t* wide_bytes) {
  if (destination && name == "_") return kSink;
  const Decoder::RegisterInfo* info = decoder_->FindRegister(name);
  if (info == nullptr) {
    Refuse("unknown register " + name);
    return kSink;
  }
  if (type == Type::kNone) Refuse("the last modifier is not a type that is understood");
  const size_t bytes = BytesOf(info->type), wanted = BytesOf(type);
  const bool special = info->reg < kSink;
  if (destination && special) Refuse("register " + name + " cannot be written");
  const bool fits = (info->type == Type::kPred) == (type == Type::kPred) &&
                    (bytes == wanted || (wide_bytes != nullptr && bytes > wanted));
  if (!fits) Refuse("register " + name + " has " + BitsText(bytes) + ", the instruction works on " + BitsText(wanted));
  if (wide_bytes != nullptr) *wide_bytes = static_cast<uint8_t>(bytes);
  return info->reg;
}

uint32_t Decoding::SourceText(const std::string& text, int64_t offset, Type type, uint8_t* wide_bytes) {
  const size_t bytes = BytesOf(type);
  if (wide_bytes != nullptr) *wide_bytes = static_cast<uint8_t>(bytes);
  if (decoder_->FindRegister(text) != nullptr && offset == 0) return Register(text, type, false, wide_bytes);
  uint64_t bits = 0;
  if (type == Type::kPred) {
    if (text == "true" || text == "false") return decoder_->ConstantRegister(0, text == "true" ? ~0ULL : 0);
    const bool number = ParseNumber(text, 4, &bits);
    if (!number) Refuse("unknown predicate " + text);
    return decoder_->ConstantRegister(0, bits != 0 ? ~0ULL : 0);
  }
  Space space = Space::kGeneric;
  std::string refusal;
  if (!ParseNumber(text, bytes, &bits)) {
    if (!decoder_->AddressOf(text, &space, &bits, &refusal)) Refuse("unknown operand '" + text + "'");
    if (!refusal.empty()) Refuse(refusal);
    const bool window = space == Space::kShared || space == Space::kLocal || space == Space::kParameter;
    if (bytes != 8 && !(window && bytes == 4)) Refuse("the address of " + text + " needs 64 bits");
    bits += static_cast<uint64_t>(offset);
  }
  return decoder_->ConstantRegister(bytes, bits);
}

uint32_t Decoding::Destination(size_t index, Type type) {
  const Operand& to = operand(index);
  if (to.kind != Operand::Kind::kScalar || to.negated)
    Refuse("operand " + std::to_string(index + 1) + " is no register");
  return Register(to.parts.empty() ? "" : to.parts[0], type, true, nullptr);
}

uint32_t Decoding::WideDestination(size_t index, Type type, uint8_t* bytes) {
  *bytes = static_cast<uint8_t>(BytesOf(type));
  const Operand& to = operand(index);
  if (to.kind != Operand::Kind::kScalar || to.negated)
    Refuse("operand " + std::to_string(index + 1) + " is no register");
  return Register(to.parts.empty() ? "" : to.parts[0], type, true, bytes);
}

uint32_t Decoding::Source(size_t index, Type type) {
  const Operand& from = operand(index);
  if (from.kind != Operand::Kind::kScalar || from.negated || !from.second.empty()) {
    Refuse("operand " + std::to_string(index + 1) + " is not understood");
    return kSink;
  }
  return SourceText(from.parts[0], from.offset, type, nullptr);
}

uint32_t Decoding::WideSource(size_t index, Type type, uint8_t* bytes) {
  const Operand& from = operand(index);
  if (from.kind != Operand::Kind::kScalar || from.negated || !from.second.empty()) {
    Refuse("operand " + std::to_string(index + 1) + " is not understood");
    return kSink;
  }
  return SourceText(from.parts[0], from.offset, type, bytes);
}

void Decoding::SecondPredicate(size_t index) {
  const Operand& to = operand(index);
  if (to.second.empty()) return;
  instruction_->d2 = Register(to.second, Type::kPred, true, nullptr);
}

uint32_t Decoding::NegatablePredicate(size_t index) {
  const Operand& from = operand(index);
  instruction_->flip = from.negated ? ~0U : 0;
  if (from.kind != Operand::Kind::kScalar || !from.second.empty()) Refuse("operand is no predicate");
  return SourceText(from.parts.empty() ? "" : from.parts[0], from.offset, Type::kPred, nullptr);
}

std::vector<uint32_t> Decoding::VectorOf(size_t index, Type type, bool destination) {
  std::vector<uint32_t> registers;
  const Operand& vector = operand(index);
  for (const std::string& part : vector.parts) {
    uint8_t bytes = 0;
    registers.push_back(destination ? Register(part, type, true, &bytes) : SourceText(part, 0, type, &bytes));
    // Elements of 8 bits are in registers of 16 bits or more.
    const size_t expected = BytesOf(type) == 1 ? instruction_->result_bytes : BytesOf(type);
    if (part == "_") continue;
    if (BytesOf(type) == 1 && instruction_->result_bytes == 0) {
      instruction_->result_bytes = bytes;
    } else if (bytes != expected) {
      Refuse("register " + part + " has another size than the elements");
    }
  }
  return registers;
}

int64_t Decoding::Immediate(size_t index) {
  const Operand& number = operand(index);
  uint64_t bits = 0;
  if (number.kind != Operand::Kind::kScalar || !ParseNumber(number.parts[0], 8, &bits)) {
    Refuse("operand " + std::to_string(index + 1) + " is no number");
  }
  return static_cast<int64_t>(bits);
}

void Decoding::Address(size_t index, Space space) {
  const Operand& address = operand(index);
  instruction_->space = space;
  instruction_->number = address.offset;
  if (address.kind != Operand::Kind::kAddress) return Refuse("operand " + std::to_string(index + 1) + " is no address");
  const std::string& base = address.parts[0];
  if (const Decoder::RegisterInfo* info = decoder_->FindRegister(base)) {
    const size_t bytes = BytesOf(info->type);
    const bool window = space == Space::kShared || space == Space::kLocal || space == Space::kParameter;
    if (bytes != 8 && !(window && bytes == 4)) Refuse("address " + base + " has " + BitsText(bytes));
    instruction_->wide_address = bytes == 8;
    instruction_->a = info->reg;
    return;
  }
  uint64_t bits = 0;
  std::string refusal;
  if (!ParseNumber(base, 8, &bits)) {
    Space found = Space::kGeneric;
    if (!decoder_->AddressOf(base, &found, &bits, &refusal)) return Refuse("unknown address " + base);
    if (!refusal.empty()) Refuse(refusal);
    if (found != space && !(space == Space::kGeneric && found == Space::kGlobal)) {
      Refuse(base + " is not in the state space that the instruction names");
    }
  }
  instruction_->a = decoder_->ConstantRegister(8, bits);
}

bool Decoding::CallParameter(const std::string& name, uint32_t* reg, size_t* bytes) {
  for (auto scope = decoder_->scopes_.rbegin(); scope != decoder_->scopes_.rend(); ++scope) {
    const auto found = scope->call_parameters.find(name);
    if (found == scope->call_parameters.end()) continue;
    *reg = found->second.reg;
    *bytes = BytesOf(found->second.type);
    return true;
  }
  return false;
}

void Decoding::BranchTarget(size_t index) {
  const Operand& label = operand(index);
  decoder_->branches_.push_back({decoder_->kernel_->code.size(), label.parts.empty() ? "" : label.parts[0], false});
}

void Decoding::BranchTable(size_t index) {
  const Operand& label = operand(index);
  decoder_->branches_.push_back({decoder_->kernel_->code.size(), label.parts.empty() ? "" : label.parts[0], true});
}

}  // namespace ptx
